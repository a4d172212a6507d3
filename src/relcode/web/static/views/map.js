// Map: relations as points, near each other where the model holds them alike.

import { once } from "../api.js";
import { go, href } from "../address.js";
import { COLOURS, SCALE, SYMBOLS, draw, text } from "../charts.js";
import { count, el, fixed, replace } from "../dom.js";
import { info, relationLink } from "../names.js";
import { into, section, title } from "../parts.js";

const NARROW = 560; // pixels
const NAMED = 30; // points with their names written, the most frequent ones

// Names of the most frequent relations, those left out that would cover a point or another name, or not fit.
function named(points, width, height) {
  const [xs, ys] = [points.map((one) => one.x), points.map((one) => one.y)];
  const part = (value, all, size) => (0.06 + (0.88 * (value - Math.min(...all))) / (Math.max(...all) - Math.min(...all) || 1)) * size;
  const places = points.map((one) => ({ x: part(one.x, xs, width), y: height - part(one.y, ys, height) }));
  const boxes = new Map();
  const order = points.map((_, place) => place).filter((place) => !points[place].short.startsWith("^")).sort((a, b) => points[b].frequency - points[a].frequency);
  for (const place of order) {
    const { x, y } = places[place];
    const half = 3.3 * points[place].short.length + 3;
    const box = { left: x - half, right: x + half, top: y - 24, bottom: y - 7 };
    const fits = box.left > 0 && box.right < width && box.top > 0;
    const covers = places.some((other, number) => number !== place && other.x > box.left - 6 && other.x < box.right + 6 && other.y > box.top - 4 && other.y < box.bottom + 4);
    const overlaps = [...boxes.values()].some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
    if (fits && !covers && !overlaps && boxes.size < NAMED) boxes.set(place, box);
  }
  return new Set(boxes.keys());
}

function groups(points, codes) {
  const dominant = new Map(codes.relations.map((row) => [row.relation, row.dominant]));
  return codes.dimensions.map((one) => ({
    name: `${one.number} ${one.words.slice(0, 2).join(", ")}`.trim(),
    members: points.map((point, place) => [point, place]).filter(([point]) => dominant.get(point.name) === one.number),
    colour: COLOURS[(one.number - 1) % COLOURS.length],
    symbol: SYMBOLS[Math.floor((one.number - 1) / COLOURS.length) % SYMBOLS.length],
  })).filter((one) => one.members.length);
}

const key = (one) => el("li", {}, el("span", { class: `dot ${one.symbol}`, style: { background: one.colour }, "aria-hidden": "true" }), one.name);

function traces(points, codes, colour, width, height) {
  const shown = named(points, width, height);
  const share = codes && new Map(codes.relations.map((row) => [row.relation, row.share]));
  const common = (members) => ({
    type: "scatter", mode: "markers+text", x: members.map(([point]) => point.x), y: members.map(([point]) => point.y), customdata: members.map(([point]) => point.name),
    text: members.map(([point, place]) => (shown.has(place) ? text(point.short) : "")), textposition: "top center", textfont: { size: 11 }, cliponaxis: false,
    hovertext: members.map(([point]) => `${text(point.name)}<br>${count(point.frequency)} training facts`), hoverinfo: "text",
  });
  const edge = { width: 0.6, color: "rgba(90,90,90,.75)" };
  if (colour === "dimension") {
    return groups(points, codes).map((one) => ({ ...common(one.members), name: text(one.name), marker: { size: 9, color: one.colour, symbol: one.symbol, line: edge } }));
  }
  const dimension = Number(colour);
  const values = points.map((point) => (dimension ? share.get(point.name)[dimension - 1] : Math.log10(Math.max(1, point.frequency))));
  const powers = [0, 1, 2, 3, 4, 5, 6].filter((power) => power <= Math.max(...values) && power >= Math.min(...values) - 0.5);
  const ticks = dimension ? {} : { tickvals: powers, ticktext: powers.map((power) => count(10 ** power)) };
  const scale = { orientation: "h", thickness: 8, len: 0.6, y: -0.02, yanchor: "top", outlinewidth: 0, title: { text: dimension ? `share of dimension ${dimension}` : "training facts", side: "bottom", font: { size: 11 } }, ...ticks };
  return [{ ...common(points.map((point, place) => [point, place])), showlegend: false, marker: { size: 9, color: values, colorscale: SCALE, line: edge, colorbar: scale } }];
}

function drawing(record, codes, parameters) {
  const chart = el("div", { class: "chart map", role: "img", "aria-label": "Map of relations" });
  const choices = [["facts", "training facts"], ...(codes ? [["dimension", "largest dimension"], ...codes.dimensions.map((one) => [String(one.number), `dimension ${one.number}${one.words.length ? ` (${one.words.slice(0, 2).join(", ")})` : ""}`])] : [])];
  const colour = el("select", { name: "colour" }, choices.map(([value, shown]) => el("option", { value, selected: value === (parameters.colour ?? (codes ? "dimension" : "facts")) }, shown)));
  const axis = { showticklabels: false, showgrid: false, zeroline: false, fixedrange: false };
  const height = () => Math.max(420, Math.min(innerHeight - 220, 720));
  const narrow = () => chart.clientWidth < NARROW; // there plotly's legend would take half of the chart: ours lies below it
  const layout = () => ({ height: height(), margin: { l: 10, r: 10, t: 10, b: narrow() && colour.value === "dimension" ? 10 : 70 }, xaxis: axis, yaxis: axis, dragmode: "pan", hovermode: "closest",
    showlegend: !narrow(), legend: { orientation: "h", y: -0.02, yanchor: "top", font: { size: 11 } } });
  const legend = el("ul", { class: "legend" });
  const redraw = () => replace(legend, narrow() && colour.value === "dimension" ? groups(record.points, codes).map(key) : []) && draw(chart, () => traces(record.points, codes, colour.value, chart.clientWidth - 20, height() - 80), layout, { onclick: (point) => go(href("relations", { relation: point.customdata })) });
  colour.addEventListener("change", () => {
    go(href("map", { ...parameters, colour: colour.value }), { quietly: true });
    redraw();
  });
  const list = el("ul", { class: "relation-list" }, record.points.map((point) => el("li", {}, relationLink(point.name))));
  setTimeout(redraw); // when it is on the page, and so has a width
  return section(null, el("div", { class: "row controls" }, el("label", { class: "inline" }, "Colour by ", colour)), el("div", { class: "chart-box" }, chart), legend,
    el("p", { class: "hint" }, `Near means alike (${record.method}); the axes have no unit. Participation ratio ${fixed(record.participation_ratio, 1)} of at most ${count(record.most_ratio)}: how many directions the relations spread over. Click a point for its relation.`),
    el("details", {}, el("summary", {}, "The same relations as a list"), list));
}

export default async function show(parameters, signal) {
  const place = el("div", {});
  const codes = info().code_dim === null ? Promise.resolve(null) : once("codes");
  into(place, Promise.all([once("map"), codes]), ([record, found]) => drawing(record, found, parameters), { signal, text: "Laying out the map: some seconds the first time…" });
  return el("div", {}, title("Map", "Every relation and its inverse, near each other where their matrices are alike."), place);
}
