// What an operator does now, in figures and in words, and the last hours.

import {bytes, count, duration, milliseconds, rate} from "../format.js";
import {Ranges, useHours, useRange} from "../parts/hours.js";
import {Lines} from "../parts/lines.js";
import {useMarks} from "../parts/marks.js";
import {html} from "../vendor/preact.js";
import {Figures} from "./figures.js";

const EACH = {1: "second", 60: "minute"};

export function Now({name, rows, overview, shown, part}) {
  const own = part === null ? rows : rows.filter((row) => row.id === part);
  return html`
    <${Figures} ...${{name, rows, overview, shown, part}} />
    <${History} name=${name} chosen=${shown?.asked ? shown.window?.committedAt : null} />
    ${own.some((row) => row.errorTuples?.length) && html`<h3 class="operator-title">Last tuples with errors</h3>
      <ul class="operator-texts">${own.flatMap((row) => row.errorTuples ?? []).slice(-5).map((text) => html`<li key=${text}>${text}</li>`)}</ul>`}`;
}

function History({name, chosen}) {
  const {seconds} = useRange();
  const {rows, step, problem} = useHours(`/logicalPlan/operators/${encodeURIComponent(name)}/history`, seconds);
  const marks = useMarks().filter((mark) => !mark.operator || mark.operator === name);
  const head = html`<div class="operator-hours"><h3 class="operator-title">${rows.length < 2 ? "Its past"
    : `The last ${duration(rows.at(-1).at - rows[0].at + rows[0].seconds)}, all partitions`}</h3><${Ranges} /></div>`;
  if (problem && !rows.length) return html`${head}<p class="operator-empty" role="status">${problem.error}</p>`;
  if (rows.length < 2) return html`${head}<p class="operator-empty" role="status">There are too few windows yet.</p>`;
  const at = rows.map((one) => one.at);
  const of = (field) => rows.map((one) => one[field]);
  const any = (field) => rows.some((one) => one[field] > 0);
  const chart = (title, show, ...lines) => html`<${Lines} key=${title} ...${{title, at, show, lines, marks, chosen}} from=${at[0] - rows[0].seconds} gap=${Math.max(30, 3 * step)} />`;
  return html`${head}
    ${chart("latency", milliseconds, {name: "median", values: of("latencyMs")}, {name: "greatest", values: of("greatestMs"), class: "second"})}
    ${chart("tuples per second", rate, {name: "in", values: of("tuplesIn")}, {name: "out", values: of("tuplesOut"), class: "second"})}
    ${any("greatestAgeMs") && chart("record age", milliseconds, {name: "mean", values: of("ageMs")}, {name: "greatest", values: of("greatestAgeMs"), class: "second"})}
    ${chart("queue", count, {name: "mean", values: of("queue")}, {name: "greatest", values: of("greatestQueue"), class: "second"})}
    ${any("stateBytes") && chart("state written a window", bytes, {name: "state", values: of("stateBytes")})}
    ${(any("errors") || any("late")) && chart(`errors and late records, each ${EACH[step] ?? duration(step)}`, count,
      {name: "errors", values: of("errors"), class: "bad"}, {name: "late", values: of("late"), class: "second"})}`;
}
