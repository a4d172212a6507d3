// Building the page. Text becomes text nodes, never markup: names come from anybody's data.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function el(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return node;
}

let last = 0;
export function unique(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

const whole = new Intl.NumberFormat("en");
export const count = (value) => whole.format(value);
export const fixed = (value, digits = 2) => Number(value).toFixed(digits).replace("-", "−");
export const signed = (value, digits = 2) => (value > 0 ? `+${fixed(value, digits)}` : fixed(value, digits));
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function percent(value) {
  if (value > 0 && value < 0.001) return "<0.1 %";
  if (value < 1 && value > 0.9995) return ">99.9 %";
  return `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
}
