// The keys of the page: letters that act wherever the focus is, but not while a text is written.
import { html } from "../vendor/preact.js";
import { Dialog } from "./dialog.js";

const known = new Map(); // by key: {label, act}

// `key`: as in KeyboardEvent.key. Returns a function that forgets it.
export function onKey(key, label, act) {
  known.set(key, { label, act });
  return () => known.delete(key);
}

window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const found = known.get(event.key);
  if (!found) return;
  event.preventDefault();
  found.act();
});

export function Keys({ onClose }) {
  const rows = [...known].map(([key, { label }]) => [key, label]);
  rows.push(["↑ ↓ Home End", "walk through a table"], ["Enter", "open the row"], ["Esc", "close"]);
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <dl class="keys">${rows.map(([key, label]) => html`<dt><kbd>${key}</kbd></dt><dd>${label}</dd>`)}</dl>
  </>`;
}
