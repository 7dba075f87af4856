// Ports with their rates, and a tail of what flows: a short recording, and its last tuples.

import {get, post} from "../api.js";
import {count, cut, rate} from "../format.js";
import {Notice} from "../parts/notice.js";
import {SignIn} from "../parts/sign_in.js";
import {useReadOnly, useStore} from "../store.js";
import {html, useEffect, useRef, useState} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";

const WINDOWS = 3;
const TUPLES = 20;
const POLL_MS = 400;
const POLLS = 100;
const OWN = ["_window", "_partition", "_position"]; // where a tuple was

export function Ports({name, rows}) {
  const {answer} = useAnswer(`/logicalPlan/operators/${encodeURIComponent(name)}/ports`, {}, 0);
  const partitions = rows.filter((row) => !row.unifierClass);
  const figures = (port) => {
    const all = partitions.flatMap((row) => row.ports ?? []).filter((one) => one.name === port.name && one.type === port.type);
    return {rate: all.reduce((sum, one) => sum + (one.tuplesPSMA ?? 0), 0), total: all.reduce((sum, one) => sum + (one.totalTuples ?? 0), 0)};
  };
  if (!answer) return html`<p class="operator-empty" role="status">Loading its ports.</p>`;
  return html`${answer.ports.map((port) => html`<${Port} key=${`${port.type} ${port.name}`} ...${{name, port}} figures=${figures(port)} />`)}`;
}

function Port({name, port, figures}) {
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
  if (!tuples.length) return html`<p class="operator-empty" role="status">No tuple was emitted in ${WINDOWS} windows.</p>`;
  const names = Object.keys(tuples[0]).sort((one, other) => OWN.includes(one) - OWN.includes(other));
  return html`<div class="operator-scroll"><table class="operator-table operator-tuples"><caption>The last ${tuples.length} tuples, recording ${id}</caption>
    <thead><tr>${names.map((one) => html`<th key=${one} scope="col" class=${OWN.includes(one) ? "muted" : ""}>${one}</th>`)}</tr></thead>
    <tbody>${[...tuples].reverse().map((tuple, at) => html`<tr key=${at}>${names.map((one) => html`<td key=${one} class=${OWN.includes(one) ? "muted" : ""} title=${text(tuple[one])}>${cut(text(tuple[one]), 60)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function text(value) {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}
