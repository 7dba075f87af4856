// Ports with their rates, and a tail of what flows: a short recording, and its last tuples.

import {get, post} from "../api.js";
import {bytes, count, cut, rate} from "../format.js";
import {Notice} from "../parts/notice.js";
import {SignIn} from "../parts/sign_in.js";
import {useReadOnly, useStore} from "../store.js";
import {html, useEffect, useRef, useState} from "../vendor/preact.js";
import {Change} from "../parts/change.js";
import {useAnswer} from "./asking.js";
import {quoted} from "./change.js";

const WINDOWS = 3;
const TUPLES = 20;
const POLL_MS = 400;
const POLLS = 100;
const OWN = ["_window", "_partition", "_position"]; // where a tuple was

export function Ports({name, rows}) {
  const {answer} = useAnswer(`/logicalPlan/operators/${encodeURIComponent(name)}/ports`, {}, 0);
  const recordings = useAnswer("/recordings", {}, 5_000);
  const partitions = rows.filter((row) => !row.unifierClass);
  const figures = (port) => {
    const all = partitions.flatMap((row) => row.ports ?? []).filter((one) => one.name === port.name && one.type === port.type);
    return {rate: all.reduce((sum, one) => sum + (one.tuplesPSMA ?? 0), 0), total: all.reduce((sum, one) => sum + (one.totalTuples ?? 0), 0)};
  };
  if (!answer) return html`<p class="operator-empty" role="status">Asking for its ports.</p>`;
  const own = (recordings.answer?.recordings ?? []).filter((one) => one.operator === name);
  return html`${answer.ports.map((port) => html`<${Port} key=${`${port.type} ${port.name}`} ...${{name, port}} figures=${figures(port)} onRecorded=${recordings.again} />`)}
    <${Recordings} name=${name} ports=${answer.ports.filter((port) => port.connected)} rows=${own} again=${recordings.again} />`;
}

/** The recordings of the operator: begun and ended by clicks, kept in the checkpoint. */
function Recordings({name, ports, rows, again}) {
  const application = useStore((state) => state.plan?.application ?? "APP");
  const readOnly = useReadOnly();
  const [asked, setAsked] = useState(null);
  const begin = (event) => {
    event.preventDefault();
    const {port, windows, megabytes} = event.target.elements;
    const words = ["record", "start", application, name, port.value, "--windows", windows.value, "--max-mb", megabytes.value];
    const which = port.value ? `port ${port.value}` : "all ports that are connected";
    setAsked({
      title: `Record ${name}`, action: "/recordings", command: commandOf(words),
      body: {operator: name, port: port.value || null, windows: Number(windows.value), maxMb: Number(megabytes.value)},
      says: `Tuples of ${which} are kept in the checkpoint, from the next window on: of ${count(Number(windows.value))} windows, and of ${count(Number(megabytes.value))} MB at most. The plan stays as it is.`,
    });
  };
  const stop = (one) => setAsked({
    title: `End recording ${one.id}`, action: `/recordings/${encodeURIComponent(one.id)}/stop`, body: {},
    command: commandOf(["record", "stop", application, one.id]),
    says: "It ends before the next window. What it has stays in the checkpoint.",
  });
  const close = () => {
    setAsked(null);
    again();
  };
  if (readOnly && !rows.length) return null;
  return html`<section class="operator-port"><h3>Recordings</h3>
    ${rows.length > 0 && html`<table class="operator-table" aria-label="Recordings">
      <thead><tr><th scope="col">id</th><th scope="col">ports</th><th scope="col" class="operator-number">tuples</th><th scope="col" class="operator-number">size</th><th scope="col">state</th></tr></thead>
      <tbody>${rows.map((one) => html`<tr key=${one.id}><td title=${one.folder}>${one.id}</td><td>${one.ports.join(", ")}</td>
        <td class="operator-number">${count(one.tuples)}</td><td class="operator-number">${bytes(one.bytes)}</td>
        <td>${one.state === "RECORDING" && !readOnly ? html`<button type="button" class="button quiet" aria-label=${`End recording ${one.id}`} onClick=${() => stop(one)}>End it</button>` : one.state.toLowerCase()}</td></tr>`)}</tbody></table>`}
    ${!readOnly && html`<form class="operator-form operator-record" aria-label="Record tuples" onSubmit=${begin}>
      <label>Port <select class="field" name="port"><option value="">all</option>${ports.map((port) => html`<option key=${port.name} value=${port.name}>${port.name}</option>`)}</select></label>
      <label>Windows <input class="field" name="windows" type="number" min="1" max="1000000" step="1" required value="1000" /></label>
      <label>MB <input class="field" name="megabytes" type="number" min="1" max="10240" step="1" required value="64" /></label>
      <button type="submit" class="button">Record</button></form>`}
    ${asked && html`<${Change} ...${asked} onClose=${close} />`}</section>`;
}

/** A `ridgeline` command; words that are empty are left out. */
function commandOf(words) {
  return ["ridgeline", ...words.filter(Boolean).map(quoted)].join(" ");
}

function Port({name, port, figures, onRecorded}) {
  const [tail, setTail] = useState({state: "none"});
  const over = useRef(false);
  useEffect(() => () => {
    over.current = true;
  }, []);
  const writes = useStore((state) => state.rights?.writes);
  const readOnly = useReadOnly();
  const show = async () => {
    if (!writes) {
      setTail({state: "asking"});
      return;
    }
    setTail({state: "waiting"});
    try {
      const begun = await post("/recordings", {operator: name, port: port.name, windows: WINDOWS});
      const tuples = await recorded(begun.result, port.name, () => over.current);
      if (!over.current) setTail({state: "shown", tuples, id: begun.result});
      onRecorded();
    } catch (problem) {
      if (!over.current) setTail({state: "failed", problem});
    }
  };
  return html`<section class="operator-port">
    <h3>${port.name} <span>${port.type}</span></h3>
    <p class="operator-rates">${port.connected ? `${rate(figures.rate)}/s · ${count(figures.total)} in all` : "not connected"}</p>
    ${port.schema && html`<p class="operator-schema"><code>${port.schema}</code></p>`}
    ${port.connected && !readOnly && html`<button type="button" class="button" disabled=${tail.state === "waiting"} onClick=${show}>
      ${tail.state === "waiting" ? "Recording" : tail.state === "shown" ? "Show newer tuples" : "Show tuples"}</button>`}
    ${tail.state === "asking" && !writes && html`<${SignIn} why="Tuples are shown to those who may change something: it needs the token." onDone=${() => setTail({state: "none"})} />`}
    ${tail.state === "failed" && html`<${Notice} problem=${tail.problem} />`}
    ${tail.state === "shown" && html`<${Tail} ...${tail} />`}
  </section>`;
}

/** The last tuples of a recording, once it has ended, or has enough. */
async function recorded(id, port, over) {
  let found = [];
  for (let turn = 0; turn < POLLS && !over(); turn++) {
    await new Promise((wake) => setTimeout(wake, POLL_MS));
    const all = (await get("/recordings")).recordings.find((one) => one.id === id);
    const ended = all?.state === "ENDED";
    if (ended || all?.tuples >= TUPLES) {
      found = (await post(`/recordings/${encodeURIComponent(id)}/tuples`, {port, limit: TUPLES})).ports[port] ?? [];
      if (found.length || ended) break;
    }
  }
  return found;
}

function Tail({tuples, id}) {
  if (!tuples.length) return html`<p class="operator-empty" role="status">No tuple came by in ${WINDOWS} windows.</p>`;
  const names = Object.keys(tuples[0]).sort((one, other) => OWN.includes(one) - OWN.includes(other));
  return html`<div class="operator-scroll"><table class="operator-table operator-tuples"><caption>The last ${tuples.length} tuples, recording ${id}</caption>
    <thead><tr>${names.map((one) => html`<th key=${one} scope="col" class=${OWN.includes(one) ? "muted" : ""}>${one}</th>`)}</tr></thead>
    <tbody>${[...tuples].reverse().map((tuple, at) => html`<tr key=${at}>${names.map((one) => html`<td key=${one} class=${OWN.includes(one) ? "muted" : ""} title=${text(tuple[one])}>${cut(text(tuple[one]), 60)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}
