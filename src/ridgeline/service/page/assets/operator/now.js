// What an operator does now, in figures and in words, and the last minutes.

import {bytes, count, duration, milliseconds, percentile, rate} from "../format.js";
import {html} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";
import {Lines} from "./lines.js";
import {verdict} from "./verdict.js";

const PLACES = ["source", "state", "emit", "commit", "publish"];

export function Now({name, rows, overview, shown, part}) {
  const latency = shown?.latency ?? overview.latency;
  const own = part === null ? rows : rows.filter((row) => row.id === part);
  const times = (part === null ? latency.logical?.[name] : latency.operators?.[part]) ?? {};
  const partitions = own.filter((row) => part !== null || !row.unifierClass);
  const sum = (field) => partitions.reduce((total, row) => total + (row[field] ?? 0), 0);
  const containers = new Set(own.map((row) => row.container));
  const siblings = Object.values(overview.operators)
    .filter((row) => containers.has(row.container) && row.logicalName !== name)
    .sort((one, other) => (other.computeMs ?? 0) - (one.computeMs ?? 0)).slice(0, 3)
    .map((row) => `${row.operator} (${milliseconds(row.computeMs ?? null)})`);
  const ages = (overview.recordAge?.operators ?? []).filter((row) => own.some((one) => one.id === row.id) && row.p50Ms != null);
  const parts = [["compute", times.computeMs], ["wait", times.waitMs], ["transfer", times.transferMs]];
  const total = parts.reduce((all, [, ms]) => all + (ms ?? 0), 0);
  const facts = [
    ["in", `${rate(sum("tuplesProcessedPSMA"))}/s`], ["out", `${rate(sum("tuplesEmittedPSMA"))}/s`],
    ["average", milliseconds(times.averageMs ?? null)], ["p50", percentile(times.p50Ms ?? null)],
    ["p99", percentile(times.p99Ms ?? null)], ["queue", count(sum("queueSizeMA"))],
    ["state written", bytes(sum("stateBytes"))], ["held", sum("heldBytes") ? bytes(sum("heldBytes")) : null],
    ["errors", sum("errors") ? count(sum("errors")) : null], ["late records", sum("lateRecords") ? count(sum("lateRecords")) : null],
    ["failures", sum("failureCount") ? count(sum("failureCount")) : null],
    ["windows lost", sum("droppedWindows") ? count(sum("droppedWindows")) : null],
  ].filter(([, value]) => value !== null);
  return html`
    ${part !== null && html`<p class="operator-part">Only ${own[0]?.operator ?? "this partition"}.</p>`}
    <div class="operator-latency"><b>${milliseconds(times.latencyMs ?? null)}</b> latency in window ${shown?.windowId ?? overview.windowId ?? "-"}</div>
    <div class="operator-bar" role="img" aria-label=${parts.map(([part_, ms]) => `${part_} ${milliseconds(ms ?? null)}`).join(", ")}>
      ${total > 0 && parts.map(([part_, ms]) => ms > 0 && html`<span key=${part_} class=${`operator-bar-${part_}`} style=${{"flexGrow": ms}}></span>`)}</div>
    <dl class="operator-parts">${parts.map(([part_, ms]) => html`<div key=${part_}><dt><i class=${`operator-bar-${part_}`}></i>${part_}</dt><dd>${milliseconds(ms ?? null)}</dd></div>`)}
      ${times.cpuMs != null && html`<div><dt>processor</dt><dd>${milliseconds(times.cpuMs)}</dd></div>`}</dl>
    <p class="operator-verdict">${verdict(times, siblings)}</p>
    <dl class="operator-facts">${facts.map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>
    ${ages.length > 0 && html`<table class="operator-table"><caption>Record age in the last minute</caption>
      <thead><tr><th scope="col">at</th><th scope="col" class="operator-number">p50</th><th scope="col" class="operator-number">p90</th>
        <th scope="col" class="operator-number">p99</th><th scope="col" class="operator-number">greatest</th></tr></thead>
      <tbody>${ages.sort((one, other) => PLACES.indexOf(one.at) - PLACES.indexOf(other.at)).map((row) => html`<tr key=${`${row.id} ${row.at}`}>
        <td>${row.at}${own.length > 1 ? ` of ${row.operator}` : ""}</td>${["p50Ms", "p90Ms", "p99Ms", "maxMs"].map((field) => html`<td key=${field} class="operator-number">${milliseconds(row[field] ?? null)}</td>`)}</tr>`)}</tbody></table>`}
    <${History} name=${name} />
    ${own.some((row) => row.errorTuples?.length) && html`<h3 class="operator-title">Last tuples with errors</h3>
      <ul class="operator-texts">${own.flatMap((row) => row.errorTuples ?? []).slice(-5).map((text) => html`<li key=${text}>${text}</li>`)}</ul>`}`;
}

function History({name}) {
  const {answer} = useAnswer(`/logicalPlan/operators/${encodeURIComponent(name)}/history`, {}, 2_000);
  const seconds = answer?.seconds ?? [];
  if (seconds.length < 2) return html`<p class="operator-empty" role="status">Its history is kept from now on.</p>`;
  const at = seconds.map((one) => one.at);
  const of = (field) => seconds.map((one) => one[field]);
  const any = (field) => seconds.some((one) => one[field] > 0);
  return html`<h3 class="operator-title">The last ${duration(at.at(-1) - at[0])}, all partitions</h3>
    <${Lines} title="latency" at=${at} show=${milliseconds} lines=${[{name: "median", values: of("latencyMs")}, {name: "greatest", values: of("greatestMs"), class: "second"}]} />
    <${Lines} title="tuples per second" at=${at} show=${rate} lines=${[{name: "in", values: of("tuplesIn")}, {name: "out", values: of("tuplesOut"), class: "second"}]} />
    <${Lines} title="queue" at=${at} show=${count} lines=${[{name: "queue", values: of("queue")}]} />
    ${any("stateBytes") && html`<${Lines} title="state written a window" at=${at} show=${bytes} lines=${[{name: "state", values: of("stateBytes")}]} />`}
    ${(any("errors") || any("late")) && html`<${Lines} title="errors and late records" at=${at} show=${count}
      lines=${[{name: "errors", values: of("errors"), class: "bad"}, {name: "late", values: of("late"), class: "second"}]} />`}`;
}
