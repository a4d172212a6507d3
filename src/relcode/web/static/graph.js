// The small graph of an explanation: head on the left, tail on the right, what lies between in lanes of its own. Upright where the page is narrow.

import { el, svg } from "./dom.js";
import { href } from "./address.js";
import { label, shortStep } from "./names.js";

const MOST_WAYS = 7; // ways drawn; the list below the graph has all
const FEW_WAYS = 3; // where the page is narrow
const NARROW = 640; // pixels
const LETTER = 7.4; // pixels, of a name; of what stands at an edge
const SMALL_LETTER = 6.2;

const cut = (text, letters) => (text.length <= letters ? text : `${text.slice(0, Math.max(1, letters - 1))}…`);

// Take the ways (a list of facts each, in order from head to tail), in turns from each path, so that each path has one.
function ways(record, limit) {
  const found = [];
  for (let round = 0; found.length < limit && record.paths.some((one) => one.facts.length > round); round += 1) {
    for (const path of record.paths) {
      if (path.facts.length > round && found.length < limit) found.push(path.facts[round]);
    }
  }
  return found;
}

// The entities along a way, beginning with the head, and each edge with its direction.
function walk(way, head) {
  let at = head;
  return way.map(([h, relation, t]) => {
    const forward = h === at;
    const edge = { from: at, to: forward ? t : h, relation, forward };
    at = edge.to;
    return edge;
  });
}

// Entities stand in columns, by their distance from the head. Each has a lane of its column, and so has an edge that passes the column: nothing runs
// through an entity. Edges of one pair are one line.
function layout(record, limit) {
  const nodes = new Map([[record.head, { depth: 0 }], [record.tail, { depth: 1 }]]);
  const edges = new Map();
  const all = ways(record, limit).map((way) => walk(way, record.head));
  const longest = Math.max(...all.map((walked) => walked.length));
  for (const walked of all) {
    walked.forEach((edge, place) => {
      const depth = (place + 1) / longest; // an entity stands where the longest way to it ends
      if (edge.to !== record.head && edge.to !== record.tail) nodes.set(edge.to, { depth: Math.max(depth, nodes.get(edge.to)?.depth ?? 0) });
      const key = JSON.stringify([edge.from, edge.to]);
      const line = edges.get(key) ?? { from: edge.from, to: edge.to, steps: new Map() };
      line.steps.set(`${edge.forward}${edge.relation}`, { relation: edge.relation, forward: edge.forward });
      edges.set(key, line);
    });
  }
  const between = [...nodes.keys()].slice(2);
  const direct = edges.has(JSON.stringify([record.head, record.tail])) ? 1 : 0;
  const passes = (line) => nodes.get(line.to).depth - nodes.get(line.from).depth > 1.5 / longest && !(line.from === record.head && line.to === record.tail);
  const columns = new Map();
  const put = (depth, one) => columns.set(Math.round(depth * longest), [...(columns.get(Math.round(depth * longest)) ?? []), one]);
  for (const line of [...edges.values()].filter(passes)) put((nodes.get(line.from).depth + nodes.get(line.to).depth) / 2, line);
  for (const name of between) put(nodes.get(name).depth, nodes.get(name));
  for (const column of columns.values()) column.forEach((one, place) => { one.lane = (place + 1 + direct) / (column.length + 1 + direct); });
  nodes.get(record.head).lane = 0.5;
  nodes.get(record.tail).lane = 0.5;
  return { nodes, edges: [...edges.values()], lanes: Math.max(0, ...[...columns.values()].map((column) => column.length)) + direct };
}

const widthOf = (shown) => Math.max(44, shown.length * LETTER + 22);

// Across: depth from left to right, lanes from top to bottom. Upright: every entity has a row of its own, left and right in turns.
function positions(nodes, width, lanes, margins, upright) {
  if (!upright) {
    const height = Math.max(120, 52 * (lanes + 1));
    const [low, high] = [margins[0], width - margins[1]];
    return { height, places: new Map([...nodes].map(([name, node]) => [name, { x: low + node.depth * (high - low), y: node.lane * height }])) };
  }
  const rows = [...nodes.entries()].sort((a, b) => a[1].depth - b[1].depth);
  const side = (number) => (number === 0 || number === rows.length - 1 ? 0.5 : number % 2 ? 0.3 : 0.7);
  return { height: 76 * (rows.length - 1) + 60, places: new Map(rows.map(([name], number) => [name, { x: side(number) * width, y: 30 + 76 * number }])) };
}

function drawEdge(line, from, to, bend, passing, upright) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const middle = { x: (from.x + to.x) / 2 - (dy / length) * bend, y: (from.y + to.y) / 2 + (dx / length) * bend };
  const steps = [...line.steps.values()];
  const at = { x: (from.x + to.x) / 4 + middle.x / 2, y: passing ?? (from.y + to.y) / 4 + middle.y / 2 };
  // A passing edge is a curve through the middle of its lane.
  const pull = passing === null ? 0 : (4 * (passing - (from.y + to.y) / 8)) / 3;
  const curve = passing === null ? `Q${middle.x},${middle.y}` : `C${from.x + dx / 4},${pull} ${to.x - dx / 4},${pull}`;
  const room = upright ? 24 : Math.min(36, Math.max(8, Math.floor((Math.abs(dx) - 130) / SMALL_LETTER)));
  const shown = cut(steps.map((step) => `${step.forward ? "" : "^"}${shortStep(step.relation)}`).join(", "), room);
  return [
    svg("path", { class: "edge", d: `M${from.x},${from.y} ${curve} ${to.x},${to.y}` }),
    svg("text", { class: "edge", x: at.x, y: at.y + 4, "text-anchor": "middle" }, svg("title", {}, steps.map((step) => (step.forward ? "" : "^") + step.relation).join(", ")), shown),
  ];
}

function drawNode(name, place, kind, letters) {
  const shown = cut(label(name) || "(no name)", letters);
  const width = widthOf(shown);
  return svg("a", { href: href("entity", { name }), class: `node ${kind}`, "data-link": true },
    svg("title", {}, label(name) === name ? name : `${label(name)} (${name})`),
    svg("rect", { x: place.x - width / 2, y: place.y - 15, width, height: 30, rx: 15 }),
    svg("text", { x: place.x, y: place.y + 4.5, "text-anchor": "middle", direction: "auto" }, shown));
}

function picture(record, width) {
  const upright = width < NARROW;
  const { nodes, edges, lanes } = layout(record, upright ? FEW_WAYS : MOST_WAYS);
  const letters = upright ? Math.floor(width / 16) : 24;
  const margins = [record.head, record.tail].map((name) => widthOf(cut(label(name), letters)) / 2 + 4);
  const { height, places } = positions(nodes, width, lanes, margins, upright);
  const drawn = edges.map((line) => {
    const direct = line.from === record.head && line.to === record.tail && lanes > 1;
    return drawEdge(line, places.get(line.from), places.get(line.to), direct ? (upright ? -0.8 * width : -0.86 * height) : 0, line.lane === undefined || upright ? null : line.lane * height, upright);
  });
  const dots = [...nodes.keys()].map((name) => drawNode(name, places.get(name), name === record.head ? "head" : name === record.tail ? "tail" : "", letters));
  // Lines first, then their texts, then entities: nothing is written under a line.
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Paths of facts from ${label(record.head)} to ${label(record.tail)}` }, drawn.map(([path]) => path), drawn.map(([, text]) => text), dots);
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
