// Where the threads of the processes that run an operator are now.

import {timeOfDay} from "../format.js";
import {Notice} from "../parts/notice.js";
import {html} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";

export function Stack({rows, part}) {
  const own = part === null ? rows : rows.filter((row) => row.id === part);
  const place = (row) => `${row.host}:${row.pid}`;
  const processes = [...new Map(own.map((row) => [place(row), row])).values()];
  return html`${processes.map((row) => html`<${Process} key=${place(row)} row=${row} titles=${own.filter((one) => place(one) === place(row)).map((one) => one.operator)} />`)}`;
}

function Process({row, titles}) {
  const {answer, problem, again} = useAnswer(`/physicalPlan/containers/${row.container}/stackTrace`, {}, 0);
  const stack = answer?.fresh ?? answer?.stack ?? "";
  return html`<section class="operator-port"><h3>${row.host ?? "-"}:${row.pid ?? "-"} <span>runs ${titles.join(", ")}</span></h3>
    <button type="button" class="operator-show" onClick=${again}>Look again</button>
    ${problem && html`<${Notice} problem=${problem} />`}
    ${answer && (stack ? html`<pre class="operator-stack" tabindex="0" aria-label="Stack">${threads(stack)}</pre>`
      : html`<p class="operator-empty" role="status">Its process says no stack: it waits for a window.</p>`)}
    ${answer?.lastHeartbeat != null && html`<p class="operator-note">Last heartbeat ${timeOfDay(answer.lastHeartbeat)}.</p>`}</section>`;
}

/** The stacks of a process, that of the thread that runs operators first. */
export function threads(text) {
  const all = text.trim().split(/\n\s*\n/);
  const runs = (one) => /operator|process|container/i.test(one) && !/heartbeat\.py/.test(one);
  return [...all.filter(runs), ...all.filter((one) => !runs(one))].join("\n\n");
}
