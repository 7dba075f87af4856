// The figures of one operator: what its latency is made of, in a bar, in numbers and in words; rates, and ages.

import {about, bytes, count, milliseconds, percentile, rate} from "../format.js";
import {columnsOf} from "../parts/columns.js";
import {Table} from "../parts/table.js";
import {html} from "../vendor/preact.js";
import {verdict} from "./verdict.js";

const PLACES = ["source", "state", "emit", "commit", "publish"];

/** `rows`: its physical operators. `part`: the id of the only one that is meant; null for all. */
export function Figures({name, rows, overview, shown, part}) {
  const latency = shown?.latency ?? overview.latency;
  const own = part === null ? rows : rows.filter((row) => row.id === part);
  const times = (part === null ? latency.logical?.[name] : latency.operators?.[part]) ?? {};
  const partitions = own.filter((row) => part !== null || !row.unifierClass);
  const sum = (field) => partitions.reduce((total, row) => total + (row[field] ?? 0), 0);
  const some = (field) => (sum(field) ? count(sum(field)) : null);
  const containers = new Set(own.map((row) => row.container));
  const siblings = Object.values(overview.operators)
    .filter((row) => containers.has(row.container) && row.logicalName !== name)
    .sort((one, other) => (other.computeMs ?? 0) - (one.computeMs ?? 0)).slice(0, 3)
    .map((row) => `${row.operator} (${milliseconds(row.computeMs ?? null)})`);
  const ages = (overview.recordAge?.operators ?? []).filter((row) => own.some((one) => one.id === row.id) && row.p50Ms != null)
    .sort((one, other) => PLACES.indexOf(one.at) - PLACES.indexOf(other.at));
  const at = (row) => `${row.at}${own.length > 1 ? ` of ${row.operator}` : ""}`;
  const parts = [["compute", times.computeMs], ["wait", times.waitMs], ["transfer", times.transferMs]];
  const total = parts.reduce((all, [, ms]) => all + (ms ?? 0), 0);
  const facts = [
    ["in", `${rate(sum("tuplesProcessedPSMA"))}/s`], ["out", `${rate(sum("tuplesEmittedPSMA"))}/s`],
    ["average", milliseconds(times.averageMs ?? null)], ["p50", percentile(times.p50Ms ?? null)],
    ["p99", percentile(times.p99Ms ?? null)], ["queue", count(sum("queueSizeMA"))],
    ["state written", bytes(sum("stateBytes"))], ["held", sum("heldBytes") ? bytes(sum("heldBytes")) : null],
    ["errors", some("errors")], ["late records", some("lateRecords")], ["failures", some("failureCount")], ["windows lost", some("droppedWindows")],
  ].filter(([, value]) => value !== null);
  return html`
    ${part !== null && html`<p class="muted">Only ${own[0]?.operator ?? "this partition"}.</p>`}
    <div class="operator-latency"><b>${about(milliseconds(times.latencyMs ?? null), times.estimated)}</b> latency in window ${shown?.windowId ?? overview.windowId ?? "-"}</div>
    <div class="operator-bar" role="img" aria-label=${parts.map(([part_, ms]) => `${part_} ${milliseconds(ms ?? null)}`).join(", ")}>
      ${total > 0 && parts.map(([part_, ms]) => ms > 0 && html`<span key=${part_} class=${`bar-${part_}`} style=${{"flexGrow": ms}}></span>`)}</div>
    <dl class="operator-parts">${parts.map(([part_, ms]) => html`<div key=${part_}><dt><i class=${`bar-${part_}`}></i>${part_}</dt><dd>${about(milliseconds(ms ?? null), times.estimated && part_ === "compute")}</dd></div>`)}
      ${times.cpuMs != null && html`<div><dt>processor</dt><dd>${about(milliseconds(times.cpuMs), times.estimated)}</dd></div>`}</dl>
    <p class="operator-verdict">${verdict(times, siblings)}</p>
    <dl class="operator-facts">${facts.map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>
    ${ages.length > 0 && html`<h3 class="operator-title">Record age in the last minute</h3>
      <${Table} label="Record age in the last minute" rows=${ages} id=${(row) => `${row.id} ${row.at}`}
        columns=${columnsOf("ages", ages, {cells: {at}, names: ["at", "p50Ms", "p90Ms", "p99Ms", "maxMs"]})} />`}`;
}
