// A dialog over the page. It is open as long as it is rendered; Escape and its button call `onClose`.
import { html, useEffect, useRef } from "../vendor/preact.js";

export function Dialog({ title, onClose, children, actions, kind = "" }) {
  const element = useRef();
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog
    class=${`dialog ${kind}`}
    ref=${element}
    aria-label=${title}
    onCancel=${(event) => {
      event.preventDefault();
      onClose();
    }}
    onClick=${(event) => event.target === element.current && onClose()}
  >
    <div class="dialog-body">
      <div class="dialog-head">
        <h2>${title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick=${onClose}>✕</button>
      </div>
      ${children}
      ${actions && html`<footer class="dialog-actions">${actions}</footer>`}
    </div>
  </dialog>`;
}
