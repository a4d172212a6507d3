// Ask: who or what stands at the other end of a relation, or of a path of relations?

import { get } from "../api.js";
import { go, href } from "../address.js";
import { combobox } from "../combobox.js";
import { count, el, fixed, percent, plural } from "../dom.js";
import { bracketed, entity, info, isRelation, label, learn, otherLabel, plainEntity, relation, steps } from "../names.js";
import { bar, empty, into, section, title } from "../parts.js";

const TOPS = [10, 25, 50, 100];

export async function findEntities(text, signal) {
  const { entities } = await get("entities", { q: text.slice(0, 200), top: 12 }, signal);
  return entities.map((one) => ({
    value: one.name,
    shown: label(one.name, one.label),
    more: one.label === one.name ? plural(one.facts, "fact") : `${one.name} · ${plural(one.facts, "fact")}`,
  }));
}

// The last step is completed; those before it stay, in brackets where they need them.
export async function findSteps(text, head, signal) {
  const all = steps(text);
  const before = all.slice(0, -1);
  const found = await get("relations", { q: all.at(-1).slice(0, 200), entity: before.length ? null : head, top: 14 }, signal).catch((error) => {
    if (error.body?.kind === "entity") return get("relations", { q: all.at(-1).slice(0, 200), top: 14 }, signal);
    throw error;
  });
  return found.relations.map((one) => ({
    value: before.length ? [...before.map(bracketed), bracketed(one.relation)].join("/") : one.relation,
    shown: one.short,
    more: one.has ? `${plural(one.has, "fact")} of this` : one.inverse ? "backwards" : plural(one.facts, "fact"),
  }));
}

function questionOf(head, text, { top, fresh }) {
  const one = isRelation(text) || steps(text).length === 1;
  return href("ask", { head, [one ? "relation" : "path"]: text.trim(), top: top === TOPS[0] ? null : top, new: fresh });
}

function form(parameters) {
  const asked = parameters.path ?? parameters.relation ?? "";
  const head = combobox({ name: "head", title: "From", value: parameters.head ?? "", placeholder: "a thing: type some letters", hint: otherLabel(parameters.head), find: findEntities });
  const path = combobox({
    name: "path", title: "Relation or path", value: asked, placeholder: "a relation, or r1/^r2",
    find: (text, signal) => findSteps(text, head.input.value.trim(), signal),
  });
  const then = el("button", { type: "button", class: "quiet then", title: "Add a step to the path" , onclick: () => {
    const all = steps(path.input.value).filter((step) => step.trim());
    if (!all.length) return path.input.focus();
    path.input.value = `${all.map(bracketed).join("/")}/`;
    path.input.focus();
    path.input.dispatchEvent(new Event("input"));
  } }, "then…");
  const top = el("select", { name: "top" }, TOPS.map((value) => el("option", { value, selected: String(value) === parameters.top }, `${value} answers`)));
  const fresh = el("input", { type: "checkbox", name: "new", checked: parameters.new === "1" });
  return el("form", {
    class: "card ask", role: "search",
    onsubmit: (event) => {
      event.preventDefault();
      const missing = [head.input, path.input].find((input) => !input.value.trim());
      if (missing) return missing.focus();
      go(questionOf(head.input.value.trim(), path.input.value, { top: Number(top.value), fresh: fresh.checked }));
    },
  },
  el("div", { class: "row" }, head.root, el("div", { class: "with-then" }, path.root, then), el("button", { type: "submit", name: "ask", class: "main" }, "Ask")),
  el("div", { class: "row options-row" }, el("label", { class: "inline" }, fresh, " only what is not known yet"), el("label", { class: "inline" }, "Show ", top),
    el("span", { class: "hint" }, "^r goes backwards, r1/r2 is first r1, then r2")));
}

function starters() {
  const known = info().starters ?? [];
  if (!known.length) return empty("This run holds no facts to ask about.");
  return section("Some questions to begin with", el("ul", { class: "starters" }, known.map((one) => el("li", {}, el("a", {
    href: href("ask", { head: one.head, relation: one.relation, path: one.path }), "data-link": true,
  }, plainEntity(one.head), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), relation(one.path ?? one.relation), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), el("b", {}, "?"))))));
}

// Where no probability is calibrated, the bar compares scores among the answers shown.
function measure(one, best) {
  if (typeof one.probability === "number") return bar(one.probability, percent(one.probability), one.known ? "known" : "");
  return bar(best > 0 ? one.score / best : 0, fixed(one.score), one.known ? "known" : "");
}

export function answerList(answers, why = null) {
  const best = Math.max(...answers.map((one) => one.score));
  return el("ol", { class: why ? "answers" : "answers no-reason" }, answers.map((one) => {
    const calibrated = typeof one.probability === "number";
    return el("li", { class: why ? "explains" : null, onclick: why && ((event) => event.target.closest("a") || go(why(one))) },
      el("span", { class: "rank" }, count(one.rank)),
      el("span", { class: "what" }, entity(one.entity, one.label), one.known && el("span", { class: "pill", title: "The facts say so already" }, "known"), calibrated && el("span", { class: "more" }, `score ${fixed(one.score)}`)),
      measure(one, best),
      why && el("a", { class: "reason", href: why(one), "data-link": true, title: "Why this answer" }, "Why?"));
  }));
}

// What probabilities are calibrated on, after a comma.
export function against() {
  const said = info().probabilities ?? "";
  return said ? `${said.replace(/^probabilities are /, "")}.` : "calibrated on held-out facts.";
}

export function legend(answers) {
  const calibrated = answers.some((one) => typeof one.probability === "number");
  const told = calibrated ? `The bars are probabilities, ${against()} ` : "The bars compare scores: they are not probabilities. ";
  return el("p", { class: "hint" }, told, "“known” means stated in the facts, held-out ones included.");
}

// The way through the entities between: a step that the facts do not state is the model's guess.
function through(record, one) {
  const stops = [record.head, ...one.through, one.entity];
  const guessed = one.stated.filter((said) => !said).length;
  return el("span", { class: "through" }, one.through.length ? ["through ", one.through.flatMap((name, place) => [place ? ", " : "", entity(name)])] : "directly",
    el("span", { class: "figure-text" }, guessed ? `${guessed} of ${stops.length - 1} steps guessed` : "every step stated"));
}

function beam(record) {
  if (!record.beam?.length) return empty("No way through the entities between was found.");
  return el("ol", { class: "answers no-reason" }, record.beam.map((one) => el("li", { class: one.known ? "is-known" : null },
    el("span", { class: "rank" }, count(one.rank)),
    el("span", { class: "what" }, entity(one.entity, one.label), one.known && el("span", { class: "pill" }, "known"), through(record, one)),
    bar(one.chance, percent(one.chance), one.known ? "known" : ""))));
}

function twoWays(record, note) {
  return el("div", { class: "columns even" },
    el("div", {}, section("By composed matrices", note, el("p", { class: "hint" }, "The path's matrices multiplied: one question to the model."), answerList(record.answers), legend(record.answers))),
    el("div", {}, section("Through the entities between", el("p", { class: "hint" }, "Step by step, keeping the likeliest entities; the bars are chances of the model's own, not calibrated."), beam(record))));
}

function results(record) {
  const { answers } = record;
  const asked = record.path ?? record.relation;
  const heading = el("h2", { class: "question" }, plainEntity(record.head), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), relation(asked), el("span", { class: "arrow", "aria-hidden": "true" }, "→"), "?");
  const note = record.note && el("p", { class: "note", role: "note" }, record.note);
  if (!answers.length) return section(null, heading, note, empty("No answers: nothing is left to rank."));
  if (record.beam) return [el("div", { class: "heading" }, heading), twoWays(record, note)];
  const why = (one) => href("why", { head: record.head, relation: record.relation, tail: one.entity });
  return section(null, heading, note, answerList(answers, why), legend(answers));
}

export default async function ask(parameters, signal) {
  await learn([parameters.head ?? ""]);
  const root = el("div", {}, title("Ask", "What does the model expect at the other end of a relation?"), form(parameters));
  const place = el("div", { class: "results", "aria-live": "polite" });
  root.append(place);
  const text = parameters.path ?? parameters.relation;
  if (!parameters.head || !text) {
    place.append(starters());
    return root;
  }
  document.title = `${parameters.head} → ${text} · relcode`;
  const question = { head: parameters.head, relation: parameters.relation, path: parameters.path, top: parameters.top ?? TOPS[0], new: parameters.new === "1" };
  const asked = get("predict", question, signal).then(async (record) => {
    await learn([record.head, ...(record.beam ?? []).flatMap((one) => one.through)]);
    return record;
  });
  into(place, asked, results, {
    signal, path: text,
    choose: (body, name) => {
      const changed = body.kind === "entity" ? { ...parameters, head: name } : { ...parameters, ...replaced(parameters, body.name, name) };
      go(href("ask", changed));
    },
  });
  return root;
}

// Put a suggested relation in the place of the unknown one, in a path too.
function replaced(parameters, unknown, name) {
  const key = parameters.path !== undefined ? "path" : "relation";
  const all = steps(parameters[key]);
  if (all.length === 1) return { [key]: (all[0].trim().startsWith("^") ? "^" : "") + name };
  const changed = all.map((step) => (step.trim().replace(/^\^/, "").replace(/^<(.*)>$/, "$1") === unknown ? (step.trim().startsWith("^") ? "^" : "") + name : step));
  return { [key]: changed.map(bracketed).join("/") };
}
