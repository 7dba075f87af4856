// A bar of compute, wait and transfer; as long as its share of `of` milliseconds.
import { html } from "../vendor/preact.js";
import { milliseconds } from "../format.js";

const PARTS = ["compute", "wait", "transfer"];

export function Bar({ compute, wait, transfer, of }) {
  const values = { compute: compute ?? 0, wait: wait ?? 0, transfer: transfer ?? 0 };
  const total = of || PARTS.reduce((sum, name) => sum + values[name], 0) || 1;
  const said = PARTS.map((name) => `${name} ${milliseconds(values[name])}`).join(", ");
  return html`<div class="bar" role="img" aria-label=${said} title=${said}>
    ${PARTS.map((name) => values[name] > 0 && html`<span class=${`bar-${name}`} style=${{ "--share": Math.min(1, values[name] / total) }}></span>`)}
  </div>`;
}

export function BarLegend() {
  return html`<div class="legend">
    ${PARTS.map((name) => html`<span style=${{ "--swatch": `var(--${name})` }}>${name}</span>`)}
  </div>`;
}
