// The mark beside the name.
import { html } from "../vendor/preact.js";

export function Mark() {
  return html`<svg class="frame-mark" viewBox="0 0 16 16" aria-hidden="true"><path d="M1 13 5.5 5l3 4.5L11 6l4 7" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" stroke-linecap="round" /></svg>`;
}
