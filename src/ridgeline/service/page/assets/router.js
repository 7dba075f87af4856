// The address is `#/VIEW?operator=NAME&window=ID&...`: what one person sees, another gets by the link.
import { useState, useEffect } from "./vendor/preact.js";

export const FIRST = "overview";
const KEPT = ["window", "region"]; // parameters that stay from view to view

export function isCode(hash) {
  return hash.startsWith("#code=") || hash === "#signed-in";
}

export function parse(hash) {
  if (isCode(hash)) return { view: FIRST, params: {} }; // it is about to be exchanged
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { view: decoded(path) || FIRST, params: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a link that was cut within a letter
  }
}

let route = parse(location.hash);
const listeners = new Set();

window.addEventListener("hashchange", () => {
  route = parse(location.hash);
  for (const listener of listeners) listener(route);
});

export function current() {
  return route;
}

export function onRoute(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// {view, params} of the address; renders again when it changes.
export function useRoute() {
  const [shown, show] = useState(route);
  useEffect(() => {
    show(route);
    return onRoute(show);
  }, []);
  return shown;
}

// The address of a place. Within the same view, other parameters stay; null removes one.
export function href({ view = route.view, ...params }) {
  const names = view === route.view ? Object.keys(route.params) : KEPT;
  const kept = Object.fromEntries(names.filter((name) => name in route.params).map((name) => [name, route.params[name]]));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...kept, ...params })) {
    if (value != null && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return `#/${encodeURIComponent(view)}${text ? `?${text}` : ""}`;
}

// Goes to a place; `replace` leaves no step in the browser's history.
export function go({ replace = false, ...place }) {
  const address = href(place);
  if (address === location.hash) return;
  if (!replace) {
    location.hash = address;
    return;
  }
  replaceAddress(address);
}

// Puts another address in the place of this one, without a step in the history: no event says so.
export function replaceAddress(address) {
  history.replaceState(null, "", address);
  route = parse(location.hash);
  for (const listener of listeners) listener(route);
}
