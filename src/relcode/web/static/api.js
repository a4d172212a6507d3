// Asking the server. Two things can go wrong: it says what is wrong (Problem), or it does not answer (Away).

const ROOT = "/api/v1/";

export class Problem extends Error {
  constructor(body) {
    super(body.detail ?? "the server could not answer");
    this.body = body;
    this.code = String(body.type ?? "").split(":").pop();
  }
}

export class Away extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

function address(route, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || value === null || value === "" || value === false) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return ROOT + route + (text ? `?${text}` : "");
}

async function ask(url, signal) {
  let response;
  try {
    response = await fetch(url, { signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Away();
  }
  let body;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Away();
  }
  if (!response.ok) throw new Problem(body);
  return body;
}

const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// A full server says when to come back: one more try is made for the person who waits.
export async function get(route, parameters = {}, signal = undefined) {
  const url = address(route, parameters);
  try {
    return await ask(url, signal);
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "busy") throw error;
    await pause(1.2);
    return ask(url, signal);
  }
}

// What never changes while a server runs is asked for once.
const kept = new Map();
export function once(route, parameters = {}) {
  const key = address(route, parameters);
  if (!kept.has(key)) {
    kept.set(key, get(route, parameters).catch((error) => {
      kept.delete(key);
      throw error;
    }));
  }
  return kept.get(key);
}

export async function isBack() {
  try {
    return (await fetch("/health", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
