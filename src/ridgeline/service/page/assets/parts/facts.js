// Names and values, one below the other; and what stands beside a table.
import { html } from "../vendor/preact.js";
import { go } from "../router.js";

// `rows`: [name, value]; those without a value are left out.
export function Facts({ rows, label }) {
  const shown = rows.filter(([, value]) => value != null && value !== "" && value !== false);
  return html`<dl class="facts" aria-label=${label}>
    ${shown.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

// A table, and the details of the row that the address names, beside or below it.
export function Split({ detail, children }) {
  return html`<div class=${detail ? "split open" : "split"}>
    <div class="split-list">${children}</div>
    ${detail}
  </div>`;
}

// `closes`: the parameters of the address that are removed by closing.
export function Detail({ title, label = title, closes, children }) {
  const none = Object.fromEntries(closes.map((name) => [name, null]));
  return html`<aside class="card split-detail" aria-label=${label}>
    <div class="split-head">
      <h2>${title}</h2>
      <button type="button" class="button quiet" aria-label="Close" onClick=${() => go(none)}>✕</button>
    </div>
    ${children}
  </aside>`;
}
