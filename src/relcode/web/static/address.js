// Every view has an address: /ask?head=Bilbao&relation=city_country can be shared, reloaded and gone back to.

export function href(view, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) query.set(name, value === true ? "1" : String(value));
  }
  const text = query.toString();
  return `/${view}${text ? `?${text}` : ""}`;
}

export function here() {
  const view = location.pathname.split("/")[1] || "ask";
  return { view, parameters: Object.fromEntries(new URLSearchParams(location.search)) };
}

let show = () => {};

export function go(address, { quietly = false } = {}) {
  if (address === location.pathname + location.search) {
    show();
    return;
  }
  history[quietly ? "replaceState" : "pushState"](null, "", address);
  if (!quietly) show();
}

export function start(showView) {
  show = showView;
  addEventListener("popstate", () => show());
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-link]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  show();
}
