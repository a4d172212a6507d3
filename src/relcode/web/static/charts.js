// Charts by plotly.js, which is large: it is loaded when the first chart is drawn, and from this server.

import { el } from "./dom.js";

// Okabe and Ito's colours, told apart by all eyes; then the same again, as dimensions may be more.
export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6d00", "#7a7a7a"];
export const SYMBOLS = ["circle", "square", "diamond", "cross", "triangle-up", "star", "x", "hexagon"];
export const SCALE = "Cividis";
let loading = null;

export function plotly() {
  loading ??= new Promise((done, failed) => {
    const script = el("script", { src: "/static/plotly.js", onload: () => done(globalThis.Plotly) });
    script.addEventListener("error", () => {
      loading = null;
      script.remove();
      failed(new Error("the charts could not be loaded: plotly is not installed beside the server (pip install 'relcode[explorer]')"));
    });
    document.head.append(script);
  });
  return loading;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function look() {
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--font"), size: 12, color: css("--ink") },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink"), family: css("--font") }, align: "left" },
  };
}

// Plotly reads <b>, <br> and the like in texts: names must not be read so.
export const text = (value) => String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const drawn = new Map();

export async function draw(place, traces, layout, { onclick } = {}) {
  const Plotly = await plotly();
  const make = () => Plotly.react(place, typeof traces === "function" ? traces() : traces, { ...look(), ...(typeof layout === "function" ? layout() : layout) }, { displayModeBar: false, responsive: true });
  await make();
  if (onclick) {
    place.removeAllListeners?.("plotly_click");
    place.on("plotly_click", (event) => onclick(event.points[0]));
  }
  drawn.set(place, make);
}

// Colours of text come from the page's style: draw again when it goes dark or light.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [place, make] of drawn) {
    if (place.isConnected) make();
    else drawn.delete(place);
  }
});
