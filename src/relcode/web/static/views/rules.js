// Rules: two relations, one after the other, that amount to a third.

import { get, once } from "../api.js";
import { go, href } from "../address.js";
import { count, el, fixed, plural, replace } from "../dom.js";
import { entity, relation } from "../names.js";
import { bar, empty, into, section, title } from "../parts.js";

const COLUMNS = [
  ["rule", "Rule", ""],
  ["shared", "Pairs", "Pairs that the path and the relation both join"],
  ["jaccard", "Jaccard", "Shared pairs among all pairs of either"],
  ["confidence", "Confidence", "How often the relation holds where the path does"],
  ["rank", "Place", "Place of the relation among all, by cosine of its matrix with the product of the path's"],
];

function groundings(list, mark) {
  if (!list.length) return el("p", { class: "hint" }, "None.");
  return el("ul", { class: "plain" }, list.map((one) => el("li", {}, entity(one.head, one.head_label), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), el("span", { class: "middle" }, entity(one.middle, one.middle_label)), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), entity(one.tail, one.tail_label),
    one.known && el("span", { class: "pill", title: "A fact held out of training says so" }, "held out"), mark && el("a", { class: "reason", href: href("why", { head: one.head, relation: mark, tail: one.tail }), "data-link": true }, "Why?"))));
}

function detail(record) {
  return el("div", { class: "columns even" },
    el("div", {}, el("h3", {}, "Examples"), el("p", { class: "hint" }, "The path leads there, and the relation says so."), groundings(record.examples)),
    el("div", {}, el("h3", {}, "Counter-examples"), el("p", { class: "hint" }, "The path leads there, but no training fact says so: an exception, or a fact that is missing or held out."), groundings(record.counter_examples, record.relation)));
}

function rows(record, parameters, signal) {
  const wanted = (parameters.search ?? "").toLowerCase();
  const key = parameters.order ?? "jaccard";
  const value = (one) => (key === "rule" ? `${one.path} ${one.relation}` : one[key]);
  const sign = key === "rule" || key === "rank" ? 1 : -1;
  const found = record.compositions.filter((one) => !wanted || `${one.path} ${one.relation}`.toLowerCase().includes(wanted)).sort((a, b) => sign * (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0));
  return found.flatMap((one) => {
    const open = one.path === parameters.path && one.relation === parameters.relation;
    const line = el("tr", { class: open ? "open" : null },
      el("td", {}, el("a", { class: "rule", href: href("rules", { ...parameters, path: open ? null : one.path, relation: open ? null : one.relation }), "data-link": true, "aria-expanded": String(open) }, relation(one.path), el("span", { class: "equals" }, " = "), relation(one.relation))),
      el("td", { class: "number", "data-title": "pairs" }, count(one.shared)),
      el("td", { "data-title": "Jaccard" }, bar(one.jaccard, fixed(one.jaccard))),
      el("td", { class: "number", "data-title": "confidence" }, fixed(one.confidence)),
      el("td", { class: "number", "data-title": "place" }, one.rank === undefined ? "–" : count(one.rank)));
    if (!open) return [line];
    const place = el("td", { colspan: COLUMNS.length });
    into(place, get("composition", { path: one.path, relation: one.relation, top: 8 }, signal), detail, { signal, text: "Looking for examples…" });
    return [line, el("tr", { class: "detail" }, place)];
  });
}

function list(record, parameters, signal) {
  if (!record.compositions.length) return section(null, empty(`No two relations amount to a third here: none shares ${record.min_pairs} pairs and a Jaccard similarity of ${record.min_jaccard} with another.`));
  const search = el("input", { type: "search", name: "search", placeholder: "a part of a name", "aria-label": "Search rules", value: parameters.search ?? "" });
  const body = el("tbody", {});
  const none = el("div", {});
  function fill() {
    const drawn = rows(record, parameters, signal);
    replace(body, drawn);
    replace(none, drawn.length ? [] : empty("No rule has that in its names."));
  }
  search.addEventListener("input", () => {
    parameters = { ...parameters, search: search.value.trim() || undefined };
    go(href("rules", parameters), { quietly: true });
    fill();
  });
  fill();
  const now = parameters.order ?? "jaccard";
  const heads = COLUMNS.map(([key, shown, hint]) => el("th", { scope: "col", class: key === "rule" || key === "jaccard" ? null : "number", "aria-sort": now === key ? (key === "rule" || key === "rank" ? "ascending" : "descending") : null },
    el("a", { href: href("rules", { ...parameters, order: key }), "data-link": true, title: hint }, shown, now === key && el("span", { "aria-hidden": "true" }, key === "rule" || key === "rank" ? " ▴" : " ▾"))));
  return section(null, el("div", { class: "row controls" }, el("label", { class: "inline grow" }, search), el("span", { class: "hint" }, `${plural(record.compositions.length, "composition")} in the training facts: at least ${record.min_pairs} shared pairs, Jaccard ${record.min_jaccard}`)),
    el("div", { class: "scroll" }, el("table", { class: "rules" }, el("thead", {}, el("tr", {}, heads)), body)), none);
}

function proposals(record) {
  if (!record.proposed.length) return empty("The model proposes nothing beyond what the facts support.");
  return el("ul", { class: "plain" }, record.proposed.map((one) => el("li", {}, el("div", {}, relation(one.path), el("span", { class: "equals" }, " = "), relation(one.target), el("span", { class: "more" }, `cosine ${fixed(one.cosine)}`)),
    one.new.length ? el("ul", { class: "plain" }, one.new.map((pair) => el("li", { class: "hint" }, "would follow: ", el("bdi", {}, pair.head), " → ", el("bdi", {}, pair.tail), " by way of ", el("bdi", {}, pair.middle)))) : null)));
}

function beyond(signal) {
  const place = el("div", {});
  const look = el("button", { type: "button", onclick: () => into(place, get("compositions", { propose: 5 }, signal), proposals, { signal, text: "Multiplying matrices: some seconds to a minute…" }) }, "Look for them");
  place.append(look);
  return section("Proposed by the model", el("p", { class: "hint" }, "Compositions that the matrices suggest and the facts do not support (yet): the third relation is nearest to the product, in both directions."), place);
}

export default async function show(parameters, signal) {
  const place = el("div", {});
  into(place, once("compositions"), (record) => list(record, parameters, signal), { signal, text: "Counting pairs in the facts…" });
  return el("div", {}, title("Rules", "Compositions: first one relation, then another, joins nearly the pairs that a third joins."), place, beyond(signal));
}
