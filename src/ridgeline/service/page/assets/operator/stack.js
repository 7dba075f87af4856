// Where the time of an operator goes by line, and where the threads of its processes are now.

import {duration, percent, timeOfDay} from "../format.js";
import {Notice} from "../parts/notice.js";
import {useReadOnly} from "../store.js";
import {html} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";

export function Stack({name, rows, part}) {
  const own = part === null ? rows : rows.filter((row) => row.id === part);
  const place = (row) => `${row.host}:${row.pid}`;
  const processes = [...new Map(own.map((row) => [place(row), row])).values()];
  return html`<${Lines} name=${name} />${processes.map((row) => html`<${Process} key=${place(row)} row=${row} titles=${own.filter((one) => place(one) === place(row)).map((one) => one.operator)} />`)}`;
}

const MOST_LINES = 8;

function Lines({name}) {
  const {answer} = useAnswer("/lines", {operator: name}, 2_000);
  const lines = answer?.operators?.find((one) => one.operator === name)?.lines.filter((one) => one.line) ?? [];
  if (!lines.length) return null;
  return html`<table class="operator-table"><caption>Lines, of the last ${duration(answer.seconds)}</caption>
    <thead><tr><th scope="col">line</th><th scope="col" class="operator-number">of its time</th><th scope="col" class="operator-number">of the path</th></tr></thead>
    <tbody>${lines.slice(0, MOST_LINES).map((one) => html`<tr key=${`${one.file} ${one.line} ${one.function}`}>
      <td title=${`${one.file}:${one.line}`}><code>${one.text || one.function}</code><small class="operator-where">${one.function}, ${one.file.slice(one.file.lastIndexOf("/") + 1)}:${one.line}</small></td>
      <td class="operator-number">${percent(one.share)}</td><td class="operator-number">${one.ofPath ? percent(one.ofPath) : "-"}</td></tr>`)}</tbody></table>`;
}

function Process({row, titles}) {
  const {answer, problem, again} = useAnswer(`/physicalPlan/containers/${row.container}/stackTrace`, {}, 0);
  const readOnly = useReadOnly(); // then no process is left to say where it is, but for its last heartbeat
  const stack = answer?.fresh ?? answer?.stack ?? "";
  return html`<section class="operator-port"><h3>${row.host ?? "-"}:${row.pid ?? "-"} <span>runs ${titles.join(", ")}</span></h3>
    ${!readOnly && html`<button type="button" class="button" onClick=${again}>Look again</button>`}
    ${problem && html`<${Notice} problem=${problem} />`}
    ${answer && (stack ? html`<pre class="operator-stack" tabindex="0" aria-label="Stack">${threads(stack)}</pre>`
      : html`<p class="operator-empty" role="status">No stack: its process waits for a window.</p>`)}
    ${answer?.lastHeartbeat != null && html`<p class="muted">Last heartbeat ${timeOfDay(answer.lastHeartbeat)}.</p>`}</section>`;
}

/** The stacks of a process, that of the thread that runs operators first. */
export function threads(text) {
  const all = text.trim().split(/\n\s*\n/);
  const runs = (one) => /operator|process|container/i.test(one) && !/heartbeat\.py/.test(one);
  return [...all.filter(runs), ...all.filter((one) => !runs(one))].join("\n\n");
}
