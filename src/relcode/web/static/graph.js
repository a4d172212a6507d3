// The small graph of an explanation: head on the left, tail on the right, what lies between in columns. Upright where the page is narrow.

import { el, svg } from "./dom.js";
import { href } from "./address.js";
import { label, shortStep } from "./names.js";

const MOST_WAYS = 7; // ways drawn; the list below the graph has all
const FEW_WAYS = 3; // where the page is narrow
const NARROW = 640;

// Take the ways (a list of facts each, in order from head to tail), in turns from each path, so that each path has one.
function ways(record, limit) {
  const found = [];
  for (let round = 0; found.length < limit && record.paths.some((one) => one.facts.length > round); round += 1) {
    for (const [number, path] of record.paths.entries()) {
      if (path.facts.length > round && found.length < limit) found.push({ path: number, facts: path.facts[round] });
    }
  }
  return found;
}

// The entities along a way, beginning with the head, and each edge with its direction.
function walk(way, head) {
  let at = head;
  return way.facts.map(([h, relation, t]) => {
    const forward = h === at;
    const edge = { from: at, to: forward ? t : h, relation, forward };
    at = edge.to;
    return edge;
  });
}

// Give each entity a place: depth along the way (a part of 1), and a lane beside others of the same depth.
function layout(record, limit) {
  const nodes = new Map([[record.head, { depth: 0 }], [record.tail, { depth: 1 }]]);
  const edges = new Map();
  for (const way of ways(record, limit)) {
    const walked = walk(way, record.head);
    walked.forEach((edge, place) => {
      if (!nodes.has(edge.to)) nodes.set(edge.to, { depth: (place + 1) / walked.length });
      edges.set(JSON.stringify([edge.from, edge.relation, edge.to, edge.forward]), { ...edge, path: way.path });
    });
  }
  const columns = new Map();
  for (const [name, node] of nodes) {
    const column = node.depth === 0 || node.depth === 1 ? node.depth : Math.round(node.depth * 6) / 6;
    columns.set(column, [...(columns.get(column) ?? []), name]);
  }
  for (const names of columns.values()) names.forEach((name, place) => { nodes.get(name).lane = (place + 1) / (names.length + 1); });
  return { nodes, edges: [...edges.values()], most: Math.max(...[...columns.values()].map((names) => names.length)) };
}

const cut = (text, letters) => (text.length <= letters ? text : `${text.slice(0, letters - 1)}…`);

// Across: depth from left to right, lanes from top to bottom. Upright: every entity has a row of its own, left and right in turns.
function positions(nodes, width, most, upright) {
  if (!upright) {
    const height = Math.max(130, 58 * most + 16);
    return { height, places: new Map([...nodes].map(([name, node]) => [name, { x: 92 + node.depth * (width - 184), y: node.lane * height }])) };
  }
  const rows = [...nodes.entries()].sort((a, b) => a[1].depth - b[1].depth);
  const side = (number) => (number === 0 || number === rows.length - 1 ? 0.5 : number % 2 ? 0.3 : 0.7);
  return { height: 76 * (rows.length - 1) + 60, places: new Map(rows.map(([name], number) => [name, { x: side(number) * width, y: 30 + 76 * number }])) };
}

function drawEdge(edge, from, to, bend, upright) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const middle = { x: (from.x + to.x) / 2 - (dy / length) * bend, y: (from.y + to.y) / 2 + (dx / length) * bend };
  const [start, end] = edge.forward ? [from, to] : [to, from];
  const at = { x: (from.x + to.x) / 4 + middle.x / 2, y: (from.y + to.y) / 4 + middle.y / 2 };
  const room = upright ? 24 : Math.max(10, Math.floor(length / 7.5));
  const text = cut(shortStep(edge.relation), room);
  return svg("g", { class: `edge path-${edge.path % 6}` },
    svg("path", { d: `M${start.x},${start.y} Q${middle.x},${middle.y} ${end.x},${end.y}`, "marker-end": "url(#arrow)" }),
    svg("text", { x: at.x, y: at.y - 6, "text-anchor": "middle" }, svg("title", {}, edge.relation), text));
}

function drawNode(name, place, kind, letters) {
  const shown = cut(label(name) || "(no name)", letters);
  const width = Math.max(44, shown.length * 7.4 + 22);
  const address = href("entity", { name });
  return svg("a", { href: address, class: `node ${kind}`, "data-link": true },
    svg("title", {}, label(name) === name ? name : `${label(name)} (${name})`),
    svg("rect", { x: place.x - width / 2, y: place.y - 15, width, height: 30, rx: 15 }),
    svg("text", { x: place.x, y: place.y + 4.5, "text-anchor": "middle", direction: "auto" }, shown));
}

function picture(record, width) {
  const upright = width < NARROW;
  const { nodes, edges, most } = layout(record, upright ? FEW_WAYS : MOST_WAYS);
  const { height, places } = positions(nodes, width, most, upright);
  const letters = upright ? Math.floor(width / 16) : 24;
  const seen = new Map();
  const lines = edges.map((edge) => {
    const key = [edge.from, edge.to].sort().join("\u0000");
    const number = seen.get(key) ?? 0;
    seen.set(key, number + 1);
    const direct = nodes.get(edge.to).depth - nodes.get(edge.from).depth === 1 && most > 1;
    return drawEdge(edge, places.get(edge.from), places.get(edge.to), (direct ? 0.9 * (upright ? width : height) : 0) * (number % 2 ? -0.5 : 0.5) + (upright ? 60 : 34) * number, upright);
  });
  const dots = [...nodes.keys()].map((name) => drawNode(name, places.get(name), name === record.head ? "head" : name === record.tail ? "tail" : "", letters));
  const arrow = svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 10 10", refX: upright ? 24 : 26, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0,1 L9,5 L0,9 z" })));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Paths of facts from ${label(record.head)} to ${label(record.tail)}` }, arrow, lines, dots);
}

export function drawGraph(record) {
  const box = el("div", { class: "graph" });
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now > 40 && now !== width) {
      width = now;
      box.replaceChildren(picture(record, width));
    }
  });
  observer.observe(box);
  return box;
}
