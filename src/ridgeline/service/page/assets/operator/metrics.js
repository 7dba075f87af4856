// The metrics that an operator declares, with their last windows.

import {count} from "../format.js";
import {Lines} from "../parts/lines.js";
import {useMarks} from "../parts/marks.js";
import {Notice} from "../parts/notice.js";
import {html} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";

export function Metrics({name}) {
  const {answer, problem} = useAnswer("/metrics", {operator: name}, 2_000);
  if (problem?.status === 404) return html`<p class="operator-empty" role="status">It declares no metrics of its own.</p>`;
  if (problem && !answer) return html`<${Notice} problem=${problem} />`;
  if (!answer) return html`<p class="operator-empty" role="status">Loading its metrics.</p>`;
  return html`${answer.metrics.map((one) => html`<section key=${one.metric} class="operator-port">
    <h3>${one.metric} <span>${one.kind}${one.unit ? `, ${one.unit}` : ""}</span></h3>
    <p class="operator-rates">${shown(one.value)} in the last window${one.kind === "counter" ? ` · ${shown(one.total)} in all` : ""}${
      one.partitions.length > 1 ? ` · by partition ${one.partitions.map(shown).join(", ")}` : ""}</p>
    ${one.help && html`<p class="muted">${one.help}</p>`}
    ${one.problem && html`<p class="muted">${one.problem}</p>`}
    <${Past} name=${name} metric=${one.metric} /></section>`)}`;
}

function Past({name, metric}) {
  const {answer} = useAnswer(`/metrics/${encodeURIComponent(name)}/${encodeURIComponent(metric)}`, {limit: 300}, 2_000);
  const windows = answer?.windows ?? [];
  const marks = useMarks().filter((mark) => !mark.operator || mark.operator === name);
  if (windows.length < 2) return null;
  return html`<${Lines} title="by window" at=${windows.map((one) => one.at)} marks=${marks} show=${shown} lines=${[{name: metric, values: windows.map((one) => one.value)}]} />`;
}

function shown(value) {
  if (value == null) return "-";
  return Number.isInteger(value) ? count(value) : value.toPrecision(4);
}
