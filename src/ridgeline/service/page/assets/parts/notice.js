// A message: a failure {error, hint}, or children.
import { html } from "../vendor/preact.js";

export function Notice({ problem, kind = "bad", children }) {
  if (!problem && !children) return null;
  return html`<div class=${`notice ${kind}`} role=${kind === "bad" ? "alert" : "status"}>
    ${problem && html`<p>${problem.error ?? String(problem)}</p>`}
    ${problem?.hint && html`<p>${problem.hint}</p>`}
    ${children}
  </div>`;
}

// Why there is nothing to see.
export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}
