// Beside the picture of a graph: the critical path as a list, and what its colours mean.

import {about, cut, milliseconds} from "../format.js";
import {html} from "../vendor/preact.js";
import {pathSteps} from "./figures.js";

/** The critical path as a list of its own: what it is, and how much of it each operator is. */
export function PathStrip({known, critical, operators, selected, pick}) {
  const steps = pathSteps(critical, operators);
  if (!steps.length) return html`<p class="graph-strip graph-strip-empty" role="status">${known
    ? "No window is committed yet: the critical path is not known." : "Of this window the critical path is not known."}</p>`;
  const most = Math.max(...steps.map((step) => step.ms));
  return html`<div class="graph-strip">
    <span class="graph-strip-title">Critical path <b>${milliseconds(critical.latencyMs)}</b></span>
    <ol class="graph-steps">${steps.map((step) => html`<li key=${step.name}>
      <button type="button" class=${step.ms === most ? "graph-step graph-step-most" : "graph-step"}
        aria-pressed=${selected === step.name} onClick=${() => pick(step.opens)}
        title=${`${step.titles.join(", ")}: compute ${milliseconds(step.computeMs)}, transfer ${milliseconds(step.transferMs)}`}>
        ${cut(step.name, 40)} <span class="graph-step-ms">${about(milliseconds(step.ms), step.estimated)}</span></button></li>`)}</ol>
  </div>`;
}

export function Legend() {
  return html`<ul class="graph-legend" aria-label="Legend">
    <li><i class="graph-key graph-key-compute"></i>compute</li><li><i class="graph-key graph-key-wait"></i>wait</li>
    <li><i class="graph-key graph-key-transfer"></i>transfer</li><li><i class="graph-key graph-key-path"></i>critical path</li></ul>`;
}
