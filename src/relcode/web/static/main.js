// The page: which view is shown, and what is said while the server is away.

import { Away, isBack } from "./api.js";
import { here, href, start } from "./address.js";
import { count, el, replace } from "./dom.js";
import { info, prepare } from "./names.js";
import { empty, into, title } from "./parts.js";

const VIEWS = { ask: "Ask", entity: "Entity", relations: "Relations", map: "Map", rules: "Rules", why: "Why" };
const view = document.getElementById("view");
const nav = document.getElementById("nav");
const away = document.getElementById("away");
let shown = null;
let current = null;

replace(nav, Object.entries(VIEWS).map(([name, title]) => el("a", { href: href(name), "data-link": true, "data-view": name }, title)));

// A module that could not be fetched is remembered as missing: the next try asks for it by another address.
let tries = 0;
const load = (name) => import(`./views/${name}.js${tries ? `?try=${tries}` : ""}`).catch(() => {
  tries += 1;
  throw new Away();
});

async function show() {
  const { view: name, parameters } = here();
  current?.abort();
  current = new AbortController();
  const { signal } = current;
  for (const link of nav.children) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${VIEWS[name] ?? "Nothing here"} · relcode`;
  if (!(name in VIEWS)) {
    replace(view, title("Nothing here"), empty("There is no view at this address.", el("p", {}, el("a", { href: href("ask"), "data-link": true }, "Ask a question"))));
    return;
  }
  const moved = shown !== null && shown !== name;
  const focused = moved ? null : document.activeElement?.getAttribute("name");
  shown = name;
  const place = replace(view, el("div", { class: `view view-${name}` })).firstChild;
  await into(place, Promise.all([load(name), info() ?? prepare()]), ([module]) => {
    tell();
    return signal.aborted ? undefined : module.default(parameters, signal);
  }, { signal, text: "Opening…" });
  if (signal.aborted) return;
  if (moved) {
    scrollTo(0, 0);
    view.focus({ preventScroll: true });
  } else if (focused) view.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus();
}

function tell() {
  const data = info();
  if (!data) return;
  const facts = data.facts.train + data.facts.valid + data.facts.test;
  replace(document.getElementById("about"), el("b", {}, data.dataset), `${count(data.entities)} things · ${count(data.relations)} relations · ${count(facts)} facts`);
}

// The server is away: say so, look every other second whether it is back, and then show the view again.
let watching = null;
async function watch() {
  if (await isBack()) {
    clearInterval(watching);
    watching = null;
    away.hidden = true;
    show();
  }
}
addEventListener("relcode-away", () => {
  if (watching) return;
  replace(away, el("span", {}, "The server does not answer. This page comes back when it does."), el("button", { type: "button", onclick: watch }, "Try now"));
  away.hidden = false;
  watching = setInterval(watch, 2000);
});

start(show);
