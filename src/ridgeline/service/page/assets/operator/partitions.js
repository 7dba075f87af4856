// Partitions side by side, the worst named; the keys that many tuples have; more or fewer partitions.

import {about, count, cut, milliseconds, percent, rate} from "../format.js";
import {go} from "../router.js";
import {useReadOnly} from "../store.js";
import {html, useState} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";
import {ChangeDialog} from "./change.js";
import {skew} from "./verdict.js";

export function Partitions({name, rows, overview, shown, part}) {
  const latency = shown?.latency ?? overview.latency;
  const partitions = rows.filter((row) => !row.unifierClass).map((row) => figured(row, latency));
  const unifiers = rows.filter((row) => row.unifierClass).map((row) => figured(row, latency));
  const most = Math.max(...[...partitions, ...unifiers].map((one) => one.total), 0);
  const readOnly = useReadOnly();
  const worst = partitions.reduce((one, other) => (one === null || other.ownMs > one.ownMs ? other : one), null);
  return html`
    ${partitions.length > 1 && html`<p class="operator-verdict">${skew(partitions)}</p>`}
    <${Table} caption=${partitions.length === 1 ? "One partition" : `${partitions.length} partitions`} list=${partitions} ...${{most, part}} worst=${partitions.length > 1 ? worst : null} />
    ${unifiers.length > 0 && html`<${Table} caption=${unifiers.length === 1 ? "One unifier" : `${unifiers.length} unifiers`} list=${unifiers} ...${{most, part}} worst=${null} />`}
    ${!readOnly && html`<${Keys} name=${name} /><${Repartition} name=${name} now=${partitions.length} />`}`;
}

function figured(row, latency) {
  const times = latency.operators?.[row.id] ?? {};
  const [compute, wait, transfer] = [times.computeMs ?? 0, times.waitMs ?? 0, times.transferMs ?? 0];
  return {
    ...row, title: row.operator, times, total: compute + wait + transfer, ownMs: compute + transfer,
    in: row.tuplesProcessedPSMA ?? 0, parts: [["compute", compute], ["wait", wait], ["transfer", transfer]],
  };
}

function Table({caption, list, most, worst, part}) {
  return html`<div class="operator-scroll"><table class="operator-table"><caption>${caption}</caption>
    <thead><tr><th scope="col">which</th><th scope="col" class="operator-number">latency</th><th scope="col">where it goes</th>
      <th scope="col" class="operator-number">in/s</th><th scope="col" class="operator-number">queue</th><th scope="col">where it runs</th></tr></thead>
    <tbody>${list.map((one) => html`<tr key=${one.id} class=${one === worst ? "operator-worst" : one.id === part ? "operator-chosen" : ""}>
      <td><button type="button" class="operator-link" onClick=${() => go({part: one.id === part ? null : String(one.id), tab: null})} title=${one.title}>${cut(short(one), 32)}</button></td>
      <td class="operator-number">${about(milliseconds(one.times.latencyMs ?? null), one.times.estimated)}</td>
      <td><span class="operator-small-bar" title=${one.parts.map(([name, ms]) => `${name} ${milliseconds(ms)}`).join(", ")}>
        ${one.parts.map(([name, ms]) => ms > 0 && html`<span key=${name} class=${`bar-${name}`} style=${{width: `${(ms / (most || 1)) * 100}%`}}></span>`)}</span></td>
      <td class="operator-number">${rate(one.in)}</td><td class="operator-number">${count(one.queueSizeMA ?? null)}</td>
      <td class="operator-place">${one.host ?? "-"}:${one.pid ?? "-"}</td></tr>`)}</tbody></table></div>`;
}

/** A title without what is said above: of a unifier its port and number. */
function short(row) {
  return row.unifierClass ? row.title.slice(row.logicalName.length + 1).replace("#unifier", " ") : row.title;
}

function Keys({name}) {
  const {answer, problem} = useAnswer("/keys", {operator: name}, 2_000);
  const found = answer?.operators?.[0];
  if (problem || (answer && !found)) return null;
  if (!found || !found.tuples) {
    return html`<h3 class="operator-title">Keys</h3><p class="operator-empty" role="status">Counting keys: they are here in a few seconds.</p>`;
  }
  const most = Math.max(...found.heavy.map((key) => key.share), 0);
  return html`<h3 class="operator-title">Keys, of ${count(found.tuples)} tuples</h3>
    ${found.byPartition.length > 1 && html`<p class="operator-verdict">The fullest partition gets ${percent(Math.max(...found.byPartition))} of the tuples, that is ${(found.imbalance ?? 1).toFixed(1)} times an even share.</p>`}
    <table class="operator-table operator-keys"><caption class="hidden">The heaviest keys</caption>
      <thead><tr><th scope="col">key</th><th scope="col" class="operator-number">share</th><th scope="col"><span class="hidden">share as a bar</span></th><th scope="col">partition</th></tr></thead>
      <tbody>${found.heavy.slice(0, 12).map((key) => html`<tr key=${key.hash}><td class="operator-key" title=${key.key}>${key.key}</td>
        <td class="operator-number">${percent(key.share)}</td>
        <td><span class="operator-small-bar"><span class="bar-compute" style=${{width: `${(key.share / (most || 1)) * 100}%`}}></span></span></td>
        <td>${key.partitions.join(", ")}</td></tr>`)}</tbody></table>
    ${found.fixed && html`<p class="muted">Its keys cannot be distributed differently: ${found.fixed}</p>`}`;
}

function Repartition({name, now}) {
  const [wanted, setWanted] = useState(String(now));
  const [edit, setEdit] = useState(null);
  const number = Number(wanted);
  const valid = Number.isInteger(number) && number > 0 && number !== now;
  return html`<form class="operator-form" onSubmit=${(event) => {
    event.preventDefault();
    if (valid) setEdit({do: "repartition", operator: name, partitions: number});
  }}>
    <label>Partitions <input class="field" type="number" min="1" step="1" value=${wanted} onInput=${(event) => setWanted(event.target.value)} /></label>
    <button type="submit" class="button" disabled=${!valid}>See what would change</button></form>
    ${edit && html`<${ChangeDialog} edit=${edit} onClose=${() => setEdit(null)} />`}`;
}
