// The blame chain of a window as a picture: who waited for whom, from the trigger to the commit.
import { html, useMemo } from "../vendor/preact.js";
import { milliseconds, percent } from "../format.js";
import { href } from "../router.js";
import { sortOf, word } from "./words.js";

const SMALL = 0.01; // of the window: steps below it are drawn with the one before
const MOST_ROWS = 24;

// Steps with their begin, in rows: one for each operator, and one for each kind of work that is nobody's.
export function rowsOf(blame) {
  const whole = timeOf(blame);
  let at = 0;
  const chain = blame
    .map((step) => ({ ...step, from: (at += step.ms) - step.ms, row: step.operator || word(step.what) }))
    .filter((step) => step.ms >= SMALL * whole);
  const rows = [...Map.groupBy(chain, (step) => step.row)]
    .map(([name, steps]) => ({ name, operator: steps[0].operator, steps, total: timeOf(steps) }));
  return { rows, chain, whole };
}

function timeOf(steps) {
  return steps.reduce((sum, step) => sum + step.ms, 0);
}

export function Gantt({ blame }) {
  const { rows, chain, whole } = useMemo(() => rowsOf(blame), [blame]);
  if (!whole) return null;
  const shown = rows.slice(0, MOST_ROWS);
  const place = new Map(shown.map((row, index) => [row.name, index]));
  const share = (ms) => `${(ms / whole) * 100}%`;
  return html`<div class="gantt" role="group" aria-label="Who waited for whom">
    <div class="gantt-axis" aria-hidden="true"><span></span><div class="gantt-track">
      ${[0, 0.25, 0.5, 0.75, 1].map((part) => html`<span class="gantt-tick" style=${{ left: `${part * 100}%` }}>${milliseconds(part * whole)}</span>`)}
    </div></div>
    <div class="gantt-rows">
      ${shown.map((row) => html`<div class="gantt-row" key=${row.name}>
        <span class="gantt-name" title=${row.name}>${row.operator
          ? html`<a href=${href({ view: "graph", operator: row.operator })}>${row.name}</a>`
          : html`<span class="muted">${row.name}</span>`}</span>
        <div class="gantt-track">
          ${row.steps.map((step, index) => html`<span
            key=${index}
            class=${`gantt-bar ${sortOf(step.what)}`}
            style=${{ left: share(step.from), width: share(step.ms) }}
            title=${`${word(step.what)}${step.operator ? ` of ${step.operator}` : ""}: ${milliseconds(step.ms)}`}
          >${step.ms > 0.09 * whole ? html`<i>${word(step.what)}</i>` : ""}</span>`)}
        </div>
        <span class="gantt-total number">${milliseconds(row.total)}</span>
      </div>`)}
      <div class="gantt-links" aria-hidden="true"><span></span><div class="gantt-track">
        ${chain.slice(1).map((step, index) => link(chain[index], step, place, share))}
      </div><span class="gantt-total"></span></div>
    </div>
    ${rows.length > MOST_ROWS && html`<p class="muted">and ${rows.length - MOST_ROWS} more</p>`}
  </div>`;
}

// A line from the end of a step down, or up, to the begin of the next one.
function link(from, to, place, share) {
  const [one, other] = [place.get(from.row), place.get(to.row)];
  if (one === undefined || other === undefined || one === other) return null;
  return html`<span
    class="gantt-link"
    style=${{ left: share(to.from), "--from": Math.min(one, other), "--rows": Math.abs(other - one) }}
  ></span>`;
}

// The same as text: the steps, the longest first.
export function Steps({ blame, usual }) {
  const rows = useMemo(() => {
    const found = Map.groupBy(blame, (step) => `${step.what} ${step.operator}`);
    const sums = [...found.values()].map((steps) => ({ ...steps[0], ms: timeOf(steps) }));
    return sums.sort((first, second) => second.ms - first.ms).slice(0, 12);
  }, [blame]);
  const whole = timeOf(blame) || 1;
  return html`<div class="table-wrap"><table class="table" aria-label="What the window waited for">
    <thead><tr><th scope="col">What</th><th scope="col">Operator</th><th scope="col" class="number">Time</th><th scope="col" class="number">Share</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${`${row.what} ${row.operator}`}>
      <td>${word(row.what)}</td><td>${row.operator}</td><td class="number">${milliseconds(row.ms)}</td><td class="number">${percent(row.ms / whole)}</td>
    </tr>`)}</tbody>
  </table></div>`;
}
