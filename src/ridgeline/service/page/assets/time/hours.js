// The last hours of all windows: latency, tuples, and how old records are where they leave the application.
import { html, useMemo } from "../vendor/preact.js";
import { duration, milliseconds, rate } from "../format.js";
import { Ranges, useHours, useRange } from "../parts/hours.js";
import { Lines } from "../parts/lines.js";
import { useQueues } from "../parts/queues.js";

const MOST_OUTPUTS = 12;

// `chosen`: when the chosen window was committed; null: none is.
export function Hours({ marks, chosen }) {
  const { seconds } = useRange();
  const { rows, step, problem } = useHours("/history", seconds);
  const regions = useMemo(() => groups(rows), [rows]);
  const from = rows.length ? rows[0].at - rows[0].seconds : 0;
  const to = rows.at(-1)?.at;
  return html`<section class="card">
    <div class="time-head"><h2>${rows.length > 1 ? `The last ${duration(to - from)}` : "The last hours"}</h2><span class="space"></span><${Ranges} /></div>
    ${problem && !rows.length && html`<p class="muted" role="status">${problem.error}</p>`}
    ${!problem && rows.length < 2 && html`<p class="muted" role="status">There are too few windows yet.</p>`}
    ${rows.length > 1 && html`<div class="time-hours">
      ${regions.map(([region, own]) => html`<${Region} key=${region} ...${{ region, rows: own, from, to, step, chosen }}
        marks=${marks.filter((mark) => mark.region == null || !region || mark.region === region)} />`)}
    </div>`}
  </section>`;
}

// The steps of each region; of an application without regions all are of "".
export function groups(rows) {
  return [...Map.groupBy(rows, (row) => row.region ?? "")];
}

function Region({ region, rows, from, to, step, marks, chosen }) {
  const at = rows.map((row) => row.at);
  const of = (field) => rows.map((row) => row[field]);
  const queues = useQueues();
  const outputs = [...new Set(rows.flatMap((row) => row.ages.map((one) => one.operator)))].filter((one) => !queues.has(one)).slice(0, MOST_OUTPUTS);
  const where = region ? ` of ${region}` : "";
  const chart = (title, show, ...lines) => html`<${Lines} key=${title} ...${{ title, at, show, lines, marks, from, to, chosen }} gap=${Math.max(30, 3 * step)} />`;
  return html`
    ${chart(`latency of windows${where}`, milliseconds, { name: "median", values: of("latencyMs") }, { name: "p99", values: of("p99Ms"), class: "second" })}
    ${outputs.map((output) => {
      const ages = rows.map((row) => row.ages.find((one) => one.operator === output));
      return chart(`record age at ${output}`, milliseconds, { name: "mean", values: ages.map((one) => one?.ageMs ?? null) }, { name: "greatest", values: ages.map((one) => one?.greatestAgeMs ?? null), class: "second" });
    })}
    ${chart(`tuples per second${where}`, rate, { name: "in", values: of("tuplesIn") }, { name: "out", values: of("tuplesOut"), class: "second" })}
    ${rows.some((row) => row.lateMs > 1) && chart(`windows${where} began late`, milliseconds, { name: "late", values: of("lateMs") })}`;
}
