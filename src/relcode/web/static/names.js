// Names as they are shown: entities by label, relations in short form; the whole name is always in the title.

import { get, once } from "./api.js";
import { el } from "./dom.js";
import { href } from "./address.js";

const MOST = 1000;
const labels = new Map();
const shorts = new Map();
let about = null;

export async function prepare() {
  about = await once("about");
  const { relations } = await once("relations", { top: MOST });
  for (const one of relations) shorts.set(one.relation, one.short);
  await learn((about.starters ?? []).map((one) => one.head));
  return about;
}

export const info = () => about;
export const isRelation = (text) => shorts.has(text.trim());

// Fetch the labels of names that came without one.
export async function learn(names) {
  if (!about?.labels) return;
  const wanted = [...new Set(names)].filter((name) => name && !labels.has(name));
  for (let low = 0; low < wanted.length; low += 100) {
    const part = wanted.slice(low, low + 100);
    const found = (await get("labels", { name: part })).labels;
    for (const name of part) labels.set(name, found[name] ?? name);
  }
}

export function label(name, given) {
  if (given && given !== name) labels.set(name, given);
  return labels.get(name) ?? given ?? name;
}

// The label of a name that is typed, where it says more than the name.
export function otherLabel(name) {
  return name && label(name) !== name ? label(name) : null;
}

export function entity(name, given, properties = {}) {
  const shown = label(name, given);
  return el("a", { class: "name", href: href("entity", { name }), "data-link": true, dir: "auto", title: shown === name ? null : name, ...properties }, shown || "(no name)");
}

export function plainEntity(name, given) {
  const shown = label(name, given);
  return el("bdi", { class: "name", title: shown === name ? null : name }, shown || "(no name)");
}

// The steps of a path as they are written: between slashes, but for those inside <…>. A text that begins with a slash is one name.
export function steps(text) {
  if (shorts.has(text) || /^\s*\^?\//.test(text)) return [text];
  const found = [];
  let from = 0;
  let inside = false;
  for (let place = 0; place < text.length; place += 1) {
    if (inside && text[place] === "\\") place += 1;
    else if (text[place] === "<" && !inside && /^\s*\^?\s*$/.test(text.slice(from, place))) inside = true;
    else if (text[place] === ">" && inside) inside = false;
    else if (text[place] === "/" && !inside) {
      found.push(text.slice(from, place));
      from = place + 1;
    }
  }
  return [...found, text.slice(from)];
}

function bare(step) {
  const text = step.trim();
  const match = /^(\^?)\s*<(.*)>$/s.exec(text);
  return match ? match[1] + match[2].replace(/\\([\\>])/g, "$1") : text;
}

// Write a step so that others can stand beside it.
export function bracketed(step) {
  const text = step.trim();
  const inverse = text.startsWith("^") ? "^" : "";
  const name = text.slice(inverse.length).trim();
  if (name.startsWith("<") || !name.includes("/")) return text;
  return `${inverse}<${name.replace(/[\\>]/g, "\\$&")}>`;
}

export function shortStep(step) {
  return shorts.get(step.trim()) ?? shorts.get(bare(step)) ?? bare(step);
}

export function relationText(path) {
  return steps(path).map(shortStep);
}

export function relation(path, properties = {}) {
  const parts = relationText(path);
  const shown = parts.flatMap((part, number) => (number ? [el("span", { class: "slash" }, " / "), el("bdi", {}, part)] : [el("bdi", {}, part)]));
  return el("span", { class: "relation", title: path, ...properties }, shown);
}

export function relationLink(path) {
  return el("a", { class: "relation", href: href("relations", { relation: path }), "data-link": true, title: path }, el("bdi", {}, shortStep(path)));
}
