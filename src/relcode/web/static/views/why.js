// Why: what speaks for a fact, as a small graph of the facts that lead from head to tail, and what speaks against it.

import { get } from "../api.js";
import { go, href } from "../address.js";
import { combobox } from "../combobox.js";
import { el, fixed, percent, plural, signed } from "../dom.js";
import { drawGraph } from "../graph.js";
import { entity, learn, otherLabel, plainEntity, relation, relationLink } from "../names.js";
import { bar, cosine, empty, into, section, title } from "../parts.js";
import { against as calibratedAgainst, findEntities, findSteps } from "./ask.js";

function form(parameters) {
  const head = combobox({ name: "head", title: "Head", value: parameters.head ?? "", hint: otherLabel(parameters.head), find: findEntities });
  const kind = combobox({ name: "relation", title: "Relation", value: parameters.relation ?? "", find: (text, signal) => findSteps(text, head.input.value.trim(), signal) });
  const tail = combobox({ name: "tail", title: "Tail", value: parameters.tail ?? "", hint: otherLabel(parameters.tail), find: findEntities });
  const inputs = [head.input, kind.input, tail.input];
  return el("form", { class: "card ask", role: "search", onsubmit: (event) => {
    event.preventDefault();
    const missing = inputs.find((input) => !input.value.trim());
    if (missing) return missing.focus();
    const [h, r, t] = inputs.map((input) => input.value.trim());
    go(href("why", { head: h, relation: r, tail: t }));
  } }, el("div", { class: "row" }, head.root, kind.root, tail.root, el("button", { type: "submit", name: "why", class: "main" }, "Why?")));
}

function verdict(record) {
  const place = record.rank === 1 ? "the best answer" : `answer number ${fixed(record.rank, record.rank % 1 ? 1 : 0)}`;
  const calibrated = typeof record.probability === "number";
  return section(null,
    el("h2", { class: "question" }, plainEntity(record.head), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), relation(record.relation), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), plainEntity(record.tail), record.known && el("span", { class: "pill" }, "known")),
    record.note && el("p", { class: "note" }, record.note),
    el("p", {}, `It is ${place} to this question, with score ${fixed(record.score)}, ${signed(record.above_mean)} against the mean candidate.`, calibrated ? [" Its probability is ", el("b", {}, percent(record.probability)), "."] : null),
    calibrated && el("p", { class: "hint" }, `The probability is ${calibratedAgainst()}`));
}

function paths(record) {
  if (!record.paths.length) return empty("No path of up to three training facts leads from head to tail.");
  const most = Math.max(...record.paths.map((one) => Math.abs(one.weight)));
  return [drawGraph(record), el("ol", { class: "paths" }, record.paths.map((one) => el("li", {},
    el("div", { class: "path-head" }, relation(one.path), bar(Math.max(0, one.weight) / (most || 1), signed(one.adds), "weight")),
    el("p", { class: "hint" }, `${plural(one.groundings, "way", "ways")} through the facts · matrix cosine ${fixed(one.cosine)} · adds ${signed(one.adds)} to the score`),
    el("ul", { class: "plain" }, one.facts.map((facts) => el("li", { class: "chain" }, facts.map((fact, place) => [place ? el("span", { class: "and" }, "·") : null, entity(fact[0]), el("span", { class: "edge" }, relation(fact[1])), entity(fact[2])])))))))];
}

function support(record) {
  const similar = record.similar.map((one) => el("li", {}, el("span", { class: "what" }, entity(one.head), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), entity(one.tail)), cosine(Math.min(one.head_cosine, one.tail_cosine))));
  const codes = record.codes.map((one) => el("li", {}, el("span", { class: "what" }, relationLink(one.relation), el("span", { class: "more" }, "leads to ", one.answers.flatMap((name, place) => [place ? ", " : "", entity(name)]))), cosine(one.code_cosine)));
  return [similar.length ? section("Similar facts", el("p", { class: "hint" }, "Facts of the same relation whose two ends have vectors like these (the lower of the two cosines)."), el("ul", { class: "answers compact" }, similar)) : null,
    codes.length ? section("Relations with like codes", el("p", { class: "hint" }, "Other relations of the head, by cosine of the codes."), el("ul", { class: "answers compact" }, codes)) : null];
}

function against(record) {
  const lines = record.against.length ? el("ul", { class: "plain" }, record.against.map((line) => el("li", { dir: "auto" }, line.slice(0, 1).toUpperCase() + line.slice(1)))) : el("p", { class: "hint" }, "Nothing found.");
  const rivals = record.rivals.length ? [el("h3", {}, "Answers that score above it"), el("ul", { class: "answers compact" }, record.rivals.map((one) => el("li", {}, el("span", { class: "what" }, entity(one.entity), one.known && el("span", { class: "pill" }, "known")), el("span", { class: "figure" }, fixed(one.score)))))] : null;
  return section("Against it", lines, rivals);
}

function namesIn(record) {
  return [record.head, record.tail, ...record.paths.flatMap((one) => one.facts.flat().flatMap((fact) => [fact[0], fact[2]])), ...record.similar.flatMap((one) => [one.head, one.tail]), ...record.codes.flatMap((one) => one.answers), ...record.rivals.map((one) => one.entity)];
}

async function explanation(record) {
  await learn(namesIn(record));
  return [verdict(record), section("For it: paths of known facts", el("p", { class: "hint" }, "Read from left to right; ^ is a relation read backwards. The fact itself is never among its own reasons."), paths(record)), el("div", { class: "columns even" }, el("div", {}, support(record)), el("div", {}, against(record)))];
}

export default async function show(parameters, signal) {
  const place = el("div", {});
  await learn([parameters.head ?? "", parameters.tail ?? ""]);
  const root = el("div", {}, title("Why", "The known facts that lead from head to tail, and what speaks against."), form(parameters), place);
  const { head, relation: kind, tail } = parameters;
  if (!head || !kind || !tail) {
    place.append(empty("Give a head, a relation and a tail; or ask a question and follow “Why?” beside an answer.", el("p", {}, el("a", { href: href("ask"), "data-link": true }, "Ask a question"))));
    return root;
  }
  document.title = `Why ${tail}? · relcode`;
  into(place, get("explain", { head, relation: kind, tail }, signal), explanation, {
    signal, text: "Looking for reasons…", path: kind,
    choose: (body, name) => {
      const role = body.kind === "relation" ? "relation" : head === body.name ? "head" : "tail";
      go(href("why", { ...parameters, [role]: name }));
    },
  });
  return root;
}
