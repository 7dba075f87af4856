// The state of the page, kept up to date by the live stream.
import { useState, useEffect, useRef } from "./vendor/preact.js";
import { address, failure, get, keyHeaders } from "./api.js";
import { merge, ofOverview } from "./deltas.js";
import { current, onRoute } from "./router.js";

const WINDOWS = 1000;
const STALE_SECONDS = 5;
const DEAD_SECONDS = 20;
const LONGEST_PAUSE = 30;
const HIDDEN_SECONDS = 60;

export const store = {
  state: {
    plan: null,
    overview: null,
    sentence: null,
    windows: [],
    connection: { live: false, since: Date.now() / 1000, begun: false, ended: false, refused: false, again: null, problem: null },
    shown: null,
  },
  set(changes) {
    store.state = { ...store.state, ...changes };
    for (const listener of listeners) listener();
  },
};
const listeners = new Set();

// A value of the state; renders again when it changes. `equal` compares two values.
export function useStore(selector, equal = Object.is) {
  const value = selector(store.state);
  const [, again] = useState(0);
  const held = useRef();
  held.current = { selector, equal, value };
  useEffect(() => {
    function look() {
      const { selector, equal, value } = held.current;
      if (!equal(selector(store.state), value)) again((number) => number + 1);
    }
    listeners.add(look);
    look();
    return () => listeners.delete(look);
  }, []);
  return value;
}

// True if the page shows a run that cannot be changed: one that is read from its log.
export function useReadOnly() {
  return useStore((state) => state.rights?.readOnly === true);
}

// Events of a stream of server-sent events: yields [name, data].
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      yield [field(event, "event: "), field(event, "data: ")];
    }
  }
}

// Lines end with a line feed alone: a text within the JSON may have other ends of lines, such as U+2028.
export function field(event, begin) {
  const line = event.split("\n").find((one) => one.startsWith(begin));
  return line ? line.slice(begin.length) : "";
}

let heard = 0; // when the stream said something last, by the browser's clock
let ahead = 0; // seconds that the application's clock, which all figures are by, is ahead of the browser's
let abort = null;
let wake = null;

function connection(changes) {
  store.set({ connection: { ...store.state.connection, ...changes } });
}

function cut() {
  if (store.state.connection.live) connection({ live: false, since: heard / 1000 + ahead });
}

function take(name, data) {
  heard = Date.now();
  const live = { ...store.state.connection, live: true, since: heard / 1000 + ahead, begun: true, refused: false, again: null, problem: null };
  const connection = store.state.connection.live ? store.state.connection : live;
  if (name === "whole") {
    const { windows, ...rest } = JSON.parse(data);
    change({ sentence: null, ...rest, windows, connection });
    if (chosen?.problem) choose(current()); // as before signing in, or while the line was cut
  } else if (name === "delta") {
    const { patch, added, changed } = JSON.parse(data);
    const { plan, overview, sentence } = store.state;
    const known = changed ? replaced(store.state.windows, changed) : store.state.windows;
    const windows = added.length ? [...known, ...added].slice(-WINDOWS) : known;
    change({ ...merge({ plan, overview, sentence }, patch), windows, connection });
  } else if (name === "end") {
    store.set({ connection: { ...connection, live: false, ended: true } });
  } else {
    store.set({ connection });
  }
}

// Windows of which more is known now take the place of what was known.
function replaced(windows, changed) {
  const key = (window) => `${window.region ?? ""} ${window.windowId}`;
  const newer = new Map(changed.map((window) => [key(window), window]));
  return windows.map((window) => newer.get(key(window)) ?? window);
}

function change(changes) {
  if (changes.overview) ahead = changes.overview.at - Date.now() / 1000;
  store.set({ ...changes, shown: chosen ?? ofOverview(changes.overview) });
}

async function once() {
  abort = new AbortController();
  const options = { signal: abort.signal, headers: keyHeaders(), cache: "no-store" };
  const response = await fetch(address("live", { every: 250 }), options);
  if (response.status === 401 || response.status === 403) {
    connection({ refused: true, live: false });
    return;
  }
  if (!response.ok) throw await failure(response);
  for await (const [name, data] of events(response.body)) {
    take(name, data);
    if (name === "end") return;
  }
}

// Keeps the stream, with a longer pause after each failure, until the application has ended.
export async function live() {
  let pause = 1;
  setInterval(watchLine, 1000);
  document.addEventListener("visibilitychange", watchEyes);
  for (;;) {
    const begun = Date.now();
    let problem = null;
    try {
      await once();
    } catch (error) {
      if (error.error) problem = error; // else the line is cut, or it was closed on purpose
    }
    cut();
    if (store.state.connection.ended) return;
    const isBeingRead = problem?.status === 503 && store.state.rights?.readOnly; // a log, which comes soon
    if (Date.now() - begun > 10_000 || isBeingRead) pause = 1;
    const wait = pause * (0.75 + Math.random() / 2);
    if (!store.state.connection.refused) connection({ again: Date.now() / 1000 + wait, problem });
    await new Promise((resolve) => {
      wake = resolve;
      if (!store.state.connection.refused && !document.hidden) setTimeout(resolve, wait * 1000);
    });
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

// Tries at once, as after signing in.
export function reconnect() {
  connection({ refused: false });
  if (wake) wake();
}

function watchLine() {
  const silent = (Date.now() - heard) / 1000;
  if (store.state.connection.live && silent > STALE_SECONDS) cut();
  if (abort && silent > DEAD_SECONDS && store.state.connection.begun) {
    heard = Date.now();
    abort.abort();
  }
}

let hiding = null;

// A page that is not looked at ends its stream, and has a new one when it is looked at again.
function watchEyes() {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => abort?.abort(), HIDDEN_SECONDS * 1000);
  else if (wake) wake();
}

// The window that the address names: its figures are what views show.
let chosen = null;

async function choose({ params }) {
  const id = params.window;
  if (!id) {
    chosen = null;
    store.set({ shown: ofOverview(store.state.overview) });
    return;
  }
  const region = params.region;
  const isOther = () => current().params.window !== id || current().params.region !== region;
  if (chosen?.asked === id && chosen.region === region && !chosen.problem) return;
  try {
    const query = { windowId: id, region };
    const [window, latency, criticalPath] = await Promise.all([
      get(`/windows/${encodeURIComponent(id)}`, { region }),
      get("/latency", query),
      get("/criticalPath", query),
    ]);
    if (isOther()) return;
    const operators = Object.fromEntries(latency.operators.map((row) => [row.id, row]));
    const logical = Object.fromEntries(latency.logical.map((row) => [row.operator, row]));
    chosen = { asked: id, windowId: window.windowId, region, window, criticalPath, latency: { ...latency, operators, logical } };
  } catch (problem) {
    if (isOther()) return;
    // No other window's figures stand for those that there are not.
    const latency = { operators: {}, logical: {} };
    chosen = { asked: id, windowId: id, region, problem, window: null, latency, criticalPath: { path: [], blame: [] } };
  }
  store.set({ shown: chosen });
}

onRoute(choose);
export function begin() {
  choose(current());
  live();
}
