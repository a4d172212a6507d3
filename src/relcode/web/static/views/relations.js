// Relations: the heatmap of codes, and everything about the relation that is chosen.

import { get, once } from "../api.js";
import { go, href } from "../address.js";
import { SCALE, draw, text } from "../charts.js";
import { el, fixed, plural, replace } from "../dom.js";
import { entity, info, relation, relationLink, shortStep } from "../names.js";
import { bar, cosine, empty, into, section, title } from "../parts.js";

const ROW = 19; // pixels
const LETTERS = 34; // of a name beside the heatmap, and where it is narrow
const FEW_LETTERS = 22;
const NARROW = 480;
const MOST_RULES = 8;
const MOST_HEADING = 19; // letters over a column

const cut = (name, letters) => (name.length <= letters ? name : `${name.slice(0, 6)}…${name.slice(name.length - letters + 7)}`);
const words = (one) => one.words.slice(0, 2).join(", "); // none where its relations share no word
const heading = (one) => `${one.number} ${cut(words(one), MOST_HEADING)}`.trim();
const inBrackets = (one) => (words(one) ? ` (${words(one)})` : "");

function ordered(rows, order) {
  const by = {
    blocks: (a, b) => (a.dominant ?? 1e9) - (b.dominant ?? 1e9) || b.share[a.dominant - 1] - a.share[a.dominant - 1] || a.short.localeCompare(b.short),
    name: (a, b) => a.short.replace(/^\^/, "").localeCompare(b.short.replace(/^\^/, "")) || a.short.length - b.short.length,
  };
  const dimension = Number(order);
  const compare = dimension ? (a, b) => b.share[dimension - 1] - a.share[dimension - 1] || a.short.localeCompare(b.short) : by[order] ?? by.blocks;
  return [...rows].sort(compare);
}

function figure(rows, dimensions, chosen, narrow) {
  const largest = Math.max(0.1, ...rows.flatMap((row) => row.share));
  const trace = {
    type: "heatmap", z: rows.map((row) => row.share), colorscale: SCALE, zmin: 0, zmax: Math.ceil(largest * 10) / 10, xgap: 1, ygap: 1,
    text: rows.map((row) => dimensions.map((one, place) => `${text(row.relation)}<br>dimension ${one.number}${text(inBrackets(one))}<br>share ${fixed(row.share[place])}`)),
    hoverinfo: "text", colorbar: { orientation: "h", thickness: 8, len: 0.6, x: 0.5, y: 0, yanchor: "top", ypad: 14, outlinewidth: 0, title: { text: "share of the code", side: "bottom", font: { size: 11 } } },
  };
  const mark = rows.findIndex((row) => row.relation === chosen);
  const shapes = mark < 0 ? [] : [{ type: "rect", xref: "paper", x0: 0, x1: 1, y0: mark - 0.5, y1: mark + 0.5, line: { color: "#e69f00", width: 2 } }];
  const layout = {
    height: ROW * rows.length + 190, margin: narrow ? { l: 4, r: 8, t: 30, b: 76 } : { l: 8, r: 84, t: 112, b: 76 }, shapes, dragmode: false,
    xaxis: { side: "top", tickvals: dimensions.map((_, place) => place), ticktext: dimensions.map((one, place) => (narrow ? (dimensions.length > 10 && place % 2 ? "" : String(one.number)) : text(heading(one)))), tickangle: narrow ? 0 : -50, fixedrange: true, zeroline: false, showgrid: false, ticks: "", tickfont: { size: 11 } },
    yaxis: { autorange: "reversed", tickvals: rows.map((_, place) => place), ticktext: rows.map((row) => text(cut(row.short, narrow ? FEW_LETTERS : LETTERS))), automargin: true, fixedrange: true, zeroline: false, showgrid: false, ticks: "", tickfont: { size: 11 } },
  };
  return [[trace], layout];
}

function heatmap(record, parameters) {
  const chart = el("div", { class: "chart", role: "img", "aria-label": "Heatmap: relations in rows, dimensions of their codes in columns" });
  const list = el("ul", { class: "relation-list" });
  const none = el("div", {});
  const search = el("input", { type: "search", name: "search", placeholder: "a part of a name", "aria-label": "Search relations", value: parameters.search ?? "" });
  const order = el("select", { name: "order" }, [["blocks", "by shared dimension"], ["name", "by name"], ...record.dimensions.map((one) => [String(one.number), `by dimension ${one.number}${inBrackets(one)}`])]
    .map(([value, shown]) => el("option", { value, selected: value === (parameters.order ?? "blocks") }, shown)));
  const inverses = el("input", { type: "checkbox", name: "inverses", checked: parameters.inverses !== "0" });

  async function redraw() {
    const wanted = search.value.trim().toLowerCase();
    const rows = ordered(record.relations.filter((row) => (!wanted || row.relation.toLowerCase().includes(wanted)) && (inverses.checked || !row.short.startsWith("^"))), order.value);
    replace(list, rows.map((row) => el("li", {}, relationLink(row.relation))));
    chart.hidden = !rows.length;
    replace(none, rows.length ? [] : empty("No relation has that in its name."));
    if (!rows.length) return;
    const [traces, layout] = figure(rows, record.dimensions, parameters.relation, innerWidth < NARROW);
    await draw(chart, traces, layout, { onclick: (point) => go(href("relations", { ...parameters, relation: rows[point.y].relation })) });
  }

  function changed() {
    const now = { ...parameters, search: search.value.trim(), order: order.value === "blocks" ? null : order.value, inverses: inverses.checked ? null : "0" };
    go(href("relations", now), { quietly: true });
    parameters = Object.fromEntries(new URLSearchParams(location.search));
    redraw();
  }
  search.addEventListener("input", changed);
  order.addEventListener("change", changed);
  inverses.addEventListener("change", changed);
  const { sparsity } = record;
  const told = sparsity.two_largest === null ? "All codes are zero." : `The two largest entries hold ${Math.round(100 * sparsity.two_largest)} % of a code on average; ${fixed(sparsity.over_tenth, 1)} entries exceed a tenth.`;
  const drawing = redraw();
  return [el("section", { class: "card" }, el("h2", {}, "Codes"), el("p", { class: "hint" }, `${told} Click a row for its relation.`),
    el("div", { class: "row controls" }, el("label", { class: "inline grow" }, search), el("label", { class: "inline" }, "Order ", order), el("label", { class: "inline" }, inverses, " inverses (^)")),
    el("div", { class: "chart-box" }, chart, none), el("details", {}, el("summary", {}, "The same relations as a list"), list)), drawing];
}

function plainList(relations) {
  return section("All relations", el("ul", { class: "relation-list" }, relations.map((one) => el("li", {}, relationLink(one.relation), el("span", { class: "more" }, plural(one.facts, "fact"))))));
}

function code(record, dimensions) {
  if (!record.code) return null;
  const large = record.code.map((share, place) => [share, place]).filter(([share]) => share >= 0.005).sort((a, b) => b[0] - a[0]);
  const names = (place) => (dimensions ? words(dimensions[place]) : "");
  return [el("h3", {}, "Code"), large.length ? el("ul", { class: "answers compact" }, large.map(([share, place]) => el("li", {}, el("span", { class: "what" }, el("a", { href: href("relations", { order: place + 1, relation: record.relation }), "data-link": true }, `${place + 1}`), el("span", { class: "more" }, names(place))), bar(share)))) : el("p", { class: "hint" }, "All zero.")];
}

function compositions(found) {
  if (!found.compositions.length) return el("p", { class: "hint" }, "None found with it.");
  return el("ul", { class: "plain ends" }, found.compositions.slice(0, MOST_RULES).map((one) => el("li", {},
    el("a", { href: href("rules", { path: one.path, relation: one.relation }), "data-link": true }, relation(one.path), " = ", relation(one.relation)), el("span", { class: "more" }, `Jaccard ${fixed(one.jaccard)}`))));
}

function profile(record, dimensions, signal) {
  const near = el("ul", { class: "answers compact" }, record.nearest.map((one) => el("li", {}, el("span", { class: "what" }, relationLink(one.relation)), cosine(one.cosine))));
  const rules = el("div", {});
  into(rules, get("compositions", { relation: record.relation }, signal), compositions, { signal, text: "Counting pairs in the facts…" });
  const facts = record.examples.map((one) => el("li", {}, entity(one.head, one.head_label), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), entity(one.tail, one.tail_label)));
  return section(null, el("h2", { class: "relation-name" }, relation(record.relation)),
    record.short !== record.relation && el("p", { class: "hint" }, el("code", {}, record.relation)),
    el("p", { class: "hint" }, plural(record.facts, "training fact"), record.inverse && ", read backwards"),
    code(record, dimensions),
    el("h3", {}, "Nearest relations"), el("p", { class: "hint" }, "Cosine of the matrices."), near,
    el("h3", {}, "Compositions"), rules,
    el("h3", {}, "Some facts"), facts.length ? el("ul", { class: "plain" }, facts) : el("p", { class: "hint" }, "No training fact has it."));
}

export default async function show(parameters, signal) {
  const [codes, side] = [el("div", {}), el("div", { class: "side" })];
  const root = el("div", {}, title("Relations", "Each relation has a short code; relations with like codes share dimensions."), el("div", { class: "columns relations" }, codes, side));
  const dimensions = info().code_dim === null ? Promise.resolve(null) : once("codes");
  if (info().code_dim === null) {
    codes.append(section("Codes", empty(`This run (recipe ${info().recipe}) has no autoencoder, so its relations have no codes.`)));
    const all = el("div", {});
    codes.append(all);
    into(all, once("relations", { top: 1000 }), (found) => plainList(found.relations.filter((one) => !one.inverse)), { signal });
  } else {
    into(codes, dimensions, (record) => heatmap(record, parameters)[0], { signal, text: "Reading the codes…" });
  }
  if (parameters.relation) {
    document.title = `${shortStep(parameters.relation)} · relcode`;
    const wanted = Promise.all([get("relation", { relation: parameters.relation }, signal), dimensions]);
    into(side, wanted, ([record, all]) => profile(record, all?.dimensions, signal), { signal, text: "Reading the relation…", choose: (body, name) => go(href("relations", { relation: name })) });
  } else {
    side.classList.add("empty");
    side.append(section("One relation", empty("Choose a relation to see its code, its nearest relations, compositions and facts.")));
  }
  return root;
}
