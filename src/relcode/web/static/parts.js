// Parts that all views share: states (loading, empty, wrong), headings, bars and tables.

import { Away, Problem } from "./api.js";
import { el, fixed, percent, replace } from "./dom.js";
import { go } from "./address.js";

const PATIENCE = 160; // milliseconds; what comes sooner needs no sign of waiting

export function title(text, hint) {
  return el("div", { class: "title" }, el("h1", {}, text), hint && el("p", { class: "hint" }, hint));
}

export function section(heading, ...children) {
  return el("section", { class: "card" }, heading && el("h2", {}, heading), ...children);
}

export function empty(text, ...more) {
  return el("div", { class: "state" }, el("p", {}, text), ...more);
}

export function waiting(text = "Looking…") {
  return el("div", { class: "state waiting", role: "status" }, el("span", { class: "spinner", "aria-hidden": "true" }), el("p", {}, text));
}

function column(body) {
  if (!body.column || body.path === undefined) return null;
  const mark = `${" ".repeat(body.column - 1)}▲`;
  return el("pre", { class: "where", "aria-label": `column ${body.column}` }, `${body.path}\n${mark}`);
}

export function wrong(error, { retry, choose, path } = {}) {
  if (error instanceof Away) {
    return el("div", { class: "state wrong", role: "alert" }, el("p", {}, "The server does not answer. Is it still running?"),
      retry && el("button", { type: "button", onclick: retry }, "Try again"));
  }
  if (!(error instanceof Problem)) console.error(error);
  const body = error.body ?? {};
  const suggestions = body.suggestions ?? [];
  return el("div", { class: "state wrong", role: "alert" },
    el("p", { dir: "auto" }, sentence(suggestions.length && choose ? error.message.replace(/: did you mean .*$/s, "") : error.message)),
    path !== undefined && column({ ...body, path }),
    suggestions.length && choose ? el("p", { class: "chips" }, "Did you mean ", suggestions.map((name) =>
      el("button", { type: "button", class: "chip", dir: "auto", onclick: () => choose(body, name) }, name))) : null,
    body.status >= 500 && retry && el("button", { type: "button", onclick: retry }, "Try again"));
}

function sentence(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1) + (/[.?!…)]$/.test(text) ? "" : ".");
}

// Put a promise's result into a place: a sign of waiting if it takes a while, then what `draw` makes of it, or what is wrong.
export async function into(place, promise, draw, { text, choose, path, signal, onwrong } = {}) {
  const timer = setTimeout(() => replace(place, waiting(text)), PATIENCE);
  place.setAttribute("aria-busy", "true");
  try {
    const result = await promise;
    if (signal?.aborted) return;
    clearTimeout(timer);
    const drawn = await draw(result);
    if (signal?.aborted) return;
    if (drawn !== undefined) replace(place, drawn);
  } catch (error) {
    clearTimeout(timer);
    if (signal?.aborted || error.name === "AbortError") return;
    if (error instanceof Away) dispatchEvent(new CustomEvent("relcode-away"));
    replace(place, (onwrong && onwrong(error)) ?? wrong(error, { choose, path, retry: () => go(location.pathname + location.search) }));
  } finally {
    clearTimeout(timer);
    place.removeAttribute("aria-busy");
  }
}

// A bar from 0 to 1 with its figure beside; the figure is the text, the bar is decoration.
export function bar(value, text = percent(value), kind = "") {
  const part = Math.max(0, Math.min(1, value));
  return el("span", { class: `measure ${kind}` }, el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "fill", style: { width: `${(100 * part).toFixed(1)}%` } })), el("span", { class: "figure" }, text));
}

export function table(columns, rows, { caption, wide = false } = {}) {
  const heads = columns.map((one) => el("th", { scope: "col", class: one.number ? "number" : null }, one.title));
  const body = rows.map((row) => el("tr", row.properties ?? {}, row.cells.map((cell, place) => el("td", { class: columns[place].number ? "number" : null, "data-title": columns[place].title }, cell))));
  return el("div", { class: `scroll ${wide ? "wide" : ""}` }, el("table", {}, caption && el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), el("tbody", {}, body)));
}

export const cosine = (value) => bar(value, fixed(value), "cosine");
