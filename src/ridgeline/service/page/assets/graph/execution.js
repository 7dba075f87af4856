// The execution view: hosts, the slots on them, the containers in those, and their operators.

import {about, bytes, cut, milliseconds} from "../format.js";
import {useAnswer} from "../operator/asking.js";
import {href} from "../router.js";
import {html} from "../vendor/preact.js";
import {executionTree} from "./model.js";

const EVERY_MS = 2_000;

export function Execution({overview, figures, selected}) {
  const {answer} = useAnswer("/physicalPlan/containers", {}, EVERY_MS, overview.info.planVersion);
  if (!answer) return html`<p class="graph-empty" role="status">Waiting for the containers.</p>`;
  const latency = figures?.latency ?? overview.latency;
  const path = new Set(((figures ?? overview).criticalPath?.path ?? []).map((step) => step.id));
  const tree = executionTree(answer.containers, Object.values(overview.operators));
  return html`<div class="graph-execution">${tree.map(({host, slots}) => html`<section key=${host} class="graph-host">
    <h2>${host} <span>${slots.length === 1 ? "1 slot" : `${slots.length} slots`}</span></h2>
    <div class="graph-slots">${slots.map(({pid, containers}) => html`<article key=${pid} class="graph-slot">
      <h3>slot <span>${pid}</span></h3>
      ${containers.map((container) => html`<div key=${container.id} class=${`graph-container graph-state-${container.state.toLowerCase()}`}>
        <p class="graph-container-head"><b>container ${container.id}</b> <span>${container.state.toLowerCase()}</span>
          ${container.bytesOut > 0 && html`<span>${bytes(container.bytesOut)} sent</span>`}</p>
        <ul>${container.rows.map((row) => html`<li key=${row.id}>
          <a class=${path.has(row.id) ? "graph-chip graph-chip-path" : "graph-chip"} aria-current=${selected === row.logicalName ? "true" : null}
            href=${href({operator: row.logicalName, part: String(row.id)})} title=${row.operator}>${cut(row.operator, 40)}
            <span>${about(milliseconds(latency.operators?.[row.id]?.latencyMs ?? null), latency.operators?.[row.id]?.estimated)}</span></a></li>`)}</ul></div>`)}
    </article>`)}</div></section>`)}</div>`;
}
