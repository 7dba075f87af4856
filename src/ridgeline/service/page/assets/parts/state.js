// The state of an application in a word, with its colour.
import { html } from "../vendor/preact.js";

const CLASSES = {
  ok: "ok", behind: "behind", stuck: "bad", failed: "bad", ended: "muted", starting: "muted",
  silent: "bad", gone: "muted", refused: "behind", strange: "behind", asking: "muted", running: "ok",
};

export function State({ state }) {
  return html`<span class=${`state ${CLASSES[state] ?? "muted"}`}>${state}</span>`;
}
