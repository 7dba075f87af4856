// Slots: the processes that run containers, where they are, and what they use.
import { html, useMemo } from "../vendor/preact.js";
import { bytes, count, duration, milliseconds, timeOfDay } from "../format.js";
import { href } from "../router.js";
import { useStore } from "../store.js";
import { useAsked } from "../parts/asked.js";
import { columnsOf, factsOf, worst } from "../parts/columns.js";
import { Detail, Facts, Listing } from "../parts/facts.js";
import { MarkList, useMarks } from "../parts/marks.js";
import { Empty, Notice } from "../parts/notice.js";

const SHARED = ["state", "memoryBytes", "heartbeatAgeSeconds", "bytesOut"];

function View() {
  const { answer, problem } = useAsked("/physicalPlan/containers");
  const operators = useStore((state) => state.overview?.operators);
  const stats = useStore((state) => state.overview?.info?.stats);
  const marks = useMarks().filter((mark) => mark.kind === "slot");
  const rows = useMemo(() => slots(answer?.containers ?? [], operators ?? {}, stats?.clockSkew ?? {}), [answer, operators, stats]);
  if (!answer) return problem ? html`<${Notice} problem=${problem} />` : html`<${Empty}>Waiting for the answer.</>`;
  const columns = makeColumns(rows);
  return html`<${Listing} label="Slots" by="slot" id=${(row) => row.key} ...${{ rows, columns }} sort=${{ by: "state", descending: false }}
    before=${html`<p class="slots-sum">${sum(stats, rows)}</p>`} detail=${(row) => html`<${Slot} row=${row} operators=${operators ?? {}} />`}>
    ${marks.length > 0 && html`<section class="slots-marks"><h2>What happened to slots</h2><${MarkList} marks=${marks} limit=${20} /></section>`}
  </>`;
}

function sum(stats, rows) {
  if (!stats) return "";
  const parts = [stats.slots == null ? `${rows.length === 1 ? "one process" : `${rows.length} processes`}, no slots of Spark` : `${count(stats.slots)} of ${count(stats.slotsWanted)} slots`];
  for (const [name, text] of [["slotsLost", "lost"], ["slotsRestarted", "started again"], ["slotsSilent", "silent for a while"], ["slotsReduced", "times fewer for want of cores"], ["slotsMisplaced", "on the wrong host"], ["slotsSpeculated", "late, run by the spare"]]) {
    if (stats[name]) parts.push(`${count(stats[name])} ${text}`);
  }
  return parts.join(", ");
}

// The containers by the process that runs them.
function slots(containers, operators, skews) {
  const found = Map.groupBy(containers, (one) => (one.pid == null ? "pending" : `${one.pid}@${one.host}`));
  return [...found].map(([key, containers]) => {
    const { host, pid } = containers[0];
    const own = containers.flatMap((one) => Object.keys(one.operators)).map((id) => operators[id]).filter(Boolean);
    const add = (name) => (own.some((one) => one[name] != null) ? own.reduce((total, one) => total + (one[name] ?? 0), 0) : null);
    const beats = containers.map((one) => one.heartbeatAgeSeconds).filter((age) => age != null);
    const newest = (name) => containers.map((one) => one[name]).find((value) => value != null) ?? null;
    return {
      key, host, pid, containers,
      state: worst(containers, columnsOf("containers", []), "state").state,
      operators: own,
      cpuPercentageMA: add("cpuPercentageMA"),
      stateBytes: add("stateBytes"),
      bytesOut: containers.reduce((total, one) => total + one.bytesOut, 0),
      heartbeatAgeSeconds: beats.length ? Math.min(...beats) : null,
      skew: host == null ? null : (skews[host] ?? null),
      memoryBytes: newest("memoryBytes"),
      garbage: newest("garbageCollections"),
      process: newest("processCpuSeconds"),
      started: newest("startedTime"),
      region: [...new Set(own.map((one) => one.region).filter(Boolean))].join(", ") || null,
    };
  });
}

function makeColumns(rows) {
  const shared = Object.fromEntries(columnsOf("containers", rows, { names: SHARED }).map((one) => [one.name, one]));
  const [cpu] = columnsOf("operators", rows, { names: ["cpuPercentageMA"] });
  return [
    { name: "slot", title: "Process", value: (row) => row.key, cell: (row) => (row.pid == null ? "not started" : row.key) },
    shared.state,
    { name: "region", title: "Region", unless: "region", value: (row) => row.region },
    { name: "containers", title: "Containers", number: true, value: (row) => row.containers.length },
    { name: "operators", title: "Operators", number: true, value: (row) => row.operators.length },
    { ...cpu, title: "CPU of operators" },
    shared.memoryBytes,
    { name: "garbage", title: "Full collections", number: true, extra: true, unless: "garbage", value: (row) => row.garbage, cell: (row) => count(row.garbage) },
    { name: "states", title: "State written", number: true, value: (row) => row.stateBytes, cell: (row) => bytes(row.stateBytes) },
    { ...shared.bytesOut, extra: true },
    shared.heartbeatAgeSeconds,
    { name: "skew", title: "Clock", number: true, extra: true, value: (row) => row.skew, cell: (row) => (row.skew == null ? "-" : milliseconds(row.skew)) },
  ].filter((one) => one && (!one.unless || rows.some((row) => row[one.unless] != null)));
}

function Slot({ row, operators }) {
  return html`<${Detail} title=${row.pid == null ? "Not started" : row.key} closes=${["slot"]}>
    <${Facts} label="Slot" rows=${[
      ...factsOf(columnsOf("containers", [row], { names: SHARED }), row),
      ["Host", row.host],
      ["Process", row.pid],
      ["Since", row.started == null ? null : timeOfDay(row.started)],
      ["Processor time", row.process == null ? null : duration(row.process)],
      ["Full collections of garbage", row.garbage == null ? null : count(row.garbage)],
      ["Clock behind the driver's", row.skew == null ? null : milliseconds(row.skew)],
    ]} />
    <h3>Containers</h3>
    ${row.containers.map((one) => html`<section class="slots-container" key=${one.id}>
      <p><b>container ${one.id}</b> <span class="muted">stage ${one.stage}, ${one.state.toLowerCase()}</span></p>
      <p class="slots-operators">${Object.entries(one.operators).map(([id, title]) => html`<a key=${id} href=${href({ view: "graph", operator: operators[id]?.operator ?? title, tab: "stack" })}>${title}</a>`)}</p>
    </section>`)}
  </>`;
}

export default { name: "slots", title: "Slots", View };
