// A text that can be copied, such as a command.
import { html, useState } from "../vendor/preact.js";

export function Copy({ text, label }) {
  const [copied, setCopied] = useState(false);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      setCopied(false); // the browser allows it on safe addresses only; the text can be selected
    }
  }
  return html`<div class="copy">
    ${label && html`<span class="muted">${label}</span>`}
    <code tabindex="0">${text}</code>
    <button type="button" class="button" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>
  </div>`;
}
