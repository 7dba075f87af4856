// The sentence about how an application does.
import { html } from "../vendor/preact.js";

// `plain`: said where there is no sentence. `link(about, text)`: what a part is that leads to what it is made of.
export function Said({ sentence, plain, link }) {
  if (!sentence) return html`<p class="sentence">${plain ?? "Waiting for the application."}</p>`;
  return html`<p class="sentence">${sentence.parts.map((part) => (part.about ? link(part.about, part.text) : part.text))}</p>`;
}
