// Entity: what is known of a thing, what the model would add, and what it holds alike.

import { get } from "../api.js";
import { go, href } from "../address.js";
import { combobox } from "../combobox.js";
import { count, el, fixed, plural } from "../dom.js";
import { entity, label, learn, relation } from "../names.js";
import { bar, cosine, empty, into, section, title } from "../parts.js";
import { against, findEntities } from "./ask.js";

const SHOWN = 8; // facts of one relation before the rest is asked for
const MOST = 200;

function chooser(name) {
  const show = (value) => value.trim() && go(href("entity", { name: value.trim() }));
  const field = combobox({ name: "name", title: "Thing", value: name, placeholder: "type some letters", find: findEntities, taken: show });
  return el("form", { class: "card ask", role: "search", onsubmit: (event) => { event.preventDefault(); show(field.input.value); } },
    el("div", { class: "row" }, field.root, el("button", { type: "submit", name: "show", class: "main" }, "Show")));
}

function group(name, one) {
  const list = el("ul", { class: "tails" });
  const fill = (facts) => list.replaceChildren(...facts.map((fact) => el("li", {}, entity(fact.entity, fact.label), !fact.trained && el("span", { class: "pill", title: "Held out: training never saw this fact" }, "held out"))));
  fill(one.facts.slice(0, SHOWN));
  const rest = one.total - Math.min(one.total, SHOWN);
  const more = rest > 0 && el("button", { type: "button", class: "quiet", onclick: async () => {
    const record = await get("facts", { entity: name, top: MOST });
    const whole = record.relations.find((other) => other.relation === one.relation);
    fill(whole.facts);
    if (whole.total > whole.facts.length) more.replaceWith(el("span", { class: "hint" }, `… and ${count(whole.total - whole.facts.length)} more`));
    else more.remove();
  } }, `${count(rest)} more`);
  return el("div", { class: "fact-group" },
    el("h3", {}, el("a", { href: href("ask", { head: name, relation: one.relation }), "data-link": true, title: `Ask the model for ${one.relation}` }, relation(one.relation))), list, more);
}

function known(record) {
  if (!record.relations.length) return empty("No facts are known.");
  return el("div", {}, record.relations.map((one) => group(record.name, one)));
}

function alike(record) {
  if (!record.neighbours.length) return empty("Training never saw this thing, so it has no neighbours.");
  return el("ol", { class: "answers compact" }, record.neighbours.map((one) => el("li", {}, el("span", { class: "what" }, entity(one.name, one.label)), cosine(one.cosine))));
}

export default async function show(parameters, signal) {
  const { name } = parameters;
  const root = el("div", {}, title("Entity", "Everything about one thing: its facts, what may be missing, and what is like it."), chooser(name ?? ""));
  if (!name) {
    const place = el("div", {});
    into(place, get("entities", { top: 12 }, signal), (found) => section("The things with most facts", el("ul", { class: "starters" }, found.entities.map((one) => el("li", {}, entity(one.name, one.label), el("span", { class: "more" }, plural(one.facts, "fact")))))), { signal });
    root.append(place);
    return root;
  }
  document.title = `${name} · relcode`;
  const [head, facts, expected, near] = ["heading", "", "", ""].map((kind) => el("div", { class: kind }));
  const columns = el("div", { class: "columns" }, el("div", {}, section("Known facts", facts)), el("div", {}, section("Suggested facts", expected), section("Neighbours in vector space", el("p", { class: "hint" }, "Cosine of the vectors."), near)));
  root.append(head, columns);
  const choose = (body, value) => go(href("entity", { name: value }));
  into(facts, get("facts", { entity: name, top: SHOWN }, signal), (record) => {
    document.title = `${label(record.name, record.label)} · relcode`;
    head.replaceChildren(el("h2", { class: "entity-name", dir: "auto" }, label(record.name, record.label)), el("p", { class: "hint" },
      record.label !== record.name && el("code", { dir: "auto" }, record.name), record.label !== record.name && " · ", plural(record.facts, "fact"), !record.trained && " · never seen in training: the model knows nothing about it"));
    into(near, get("neighbours", { entity: name, top: 10 }, signal), alike, { signal });
    suggestions(expected, record.name, signal);
    return known(record);
  }, { signal, choose, onwrong: (error) => { if (error.code === "unknown-name") columns.classList.add("only-first"); } });
  return root;
}

function suggested(record) {
  const { suggestions } = record;
  if (!suggestions.length) return empty("Nothing to suggest: no question about it is open.");
  const calibrated = suggestions.some((one) => typeof one.probability === "number");
  const [low, high] = [Math.min(...suggestions.map((one) => one.evidence)), Math.max(...suggestions.map((one) => one.evidence))];
  const measure = (one) => (calibrated ? bar(one.probability ?? 0) : bar(high > low ? 0.05 + (0.95 * (one.evidence - low)) / (high - low) : 1, fixed(one.evidence)));
  return [el("p", { class: "hint" }, calibrated ? `Most probable first; probabilities ${against()}` : "Most likely first, by the evidence of both directions; this run is not calibrated, so there are no probabilities (relcode calibrate)."),
    el("ol", { class: "answers pairs" }, suggestions.map((one) => {
      const self = one.head === record.entity;
      return el("li", {}, el("span", { class: "what" }, entity(self ? one.tail : one.head), calibrated && el("span", { class: "more" }, `score ${fixed(one.score)}`), el("span", { class: "through" }, self ? relation(one.relation) : ["as the tail of ", relation(one.relation)])),
        measure(one), el("a", { class: "reason", href: href("why", { head: one.head, relation: one.relation, tail: one.tail }), "data-link": true }, "Why?"));
    }))];
}

function suggestions(place, name, signal) {
  const asked = get("suggest", { entity: name, top: 12 }, signal).then(async (record) => {
    await learn(record.suggestions.flatMap((one) => [one.head, one.tail]));
    return record;
  });
  into(place, asked, suggested, { signal, text: "Going through what is open…" });
}
