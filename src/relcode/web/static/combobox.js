// A text field that completes: the ARIA combobox with a listbox. Arrows choose, Enter takes, Escape closes.

import { Away } from "./api.js";
import { el, replace, unique } from "./dom.js";

const DELAY = 90; // milliseconds after the last key

// `find(text, signal)` returns options {value, shown, more}; `taken(value)` is told what was chosen.
export function combobox({ name, title, value = "", placeholder = "", hint, find, taken = () => {} }) {
  const [field, list, note] = [unique("field"), unique("list"), unique("note")];
  const listbox = el("ul", { class: "options", role: "listbox", id: list, "aria-label": title, hidden: true });
  const input = el("input", {
    id: field, name, type: "text", value, placeholder, dir: "auto", autocomplete: "off", autocapitalize: "off", spellcheck: "false", role: "combobox",
    "aria-expanded": "false", "aria-controls": list, "aria-autocomplete": "list", "aria-describedby": hint ? note : null,
  });
  const root = el("div", { class: "field" }, el("label", { for: field }, title), el("div", { class: "combo" }, input, listbox), hint && el("p", { class: "hint", id: note }, hint));
  let options = [];
  let active = -1;
  let timer = null;
  let request = null;
  let stale = false; // the options are those of an earlier text

  function close() {
    clearTimeout(timer);
    request?.abort();
    listbox.hidden = true;
    listbox.replaceChildren();
    active = -1;
    stale = false;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function activate(place) {
    active = options.length ? (place + options.length) % options.length : -1;
    [...listbox.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === active)));
    const item = listbox.children[active];
    if (item?.id) input.setAttribute("aria-activedescendant", item.id);
    item?.scrollIntoView({ block: "nearest" });
  }

  function take(option) {
    input.value = option.value;
    close();
    input.focus();
    taken(option.value);
  }

  function draw() {
    replace(listbox, options.length
      ? options.map((option, number) => el("li", {
        role: "option", id: `${list}-${number}`, "aria-selected": "false",
        onmousedown: (event) => { event.preventDefault(); take(option); },
      }, el("bdi", { class: "shown" }, option.shown), option.more && el("span", { class: "more" }, option.more)))
      : el("li", { class: "none", role: "presentation" }, "nothing found"));
    listbox.hidden = false;
    active = -1;
    stale = false;
    input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-expanded", "true");
  }

  async function search() {
    clearTimeout(timer);
    request?.abort();
    request = new AbortController();
    const { signal } = request;
    try {
      options = await find(input.value, signal);
      if (!signal.aborted && document.activeElement === input) draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      close();
      if (error instanceof Away) dispatchEvent(new CustomEvent("relcode-away"));
    }
  }

  function soon() {
    stale = true;
    clearTimeout(timer);
    timer = setTimeout(search, DELAY);
  }

  input.addEventListener("input", soon);
  input.addEventListener("blur", close);
  input.addEventListener("click", () => { if (listbox.hidden) soon(); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (listbox.hidden || stale) search().then(() => event.key === "ArrowDown" && !listbox.hidden && activate(0));
      else activate(active + (event.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1));
    } else if (event.key === "Enter" && active >= 0 && !listbox.hidden) {
      event.preventDefault();
      take(options[active]);
    } else if (event.key === "Escape" && !listbox.hidden) {
      event.preventDefault();
      close();
    } else if (event.key === "Enter") close();
  });
  return { root, input };
}
