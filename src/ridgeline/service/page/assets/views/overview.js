// The first view: whether it keeps up, the critical path, and every operator with where its time goes.
import { html, useMemo } from "../vendor/preact.js";
import { count, cut, duration, milliseconds, oldest, percentile, plural, rate, timeOfDay } from "../format.js";
import { go, href, useRoute } from "../router.js";
import { useStore } from "../store.js";
import { Bar, BarLegend } from "../parts/bar.js";
import { columnsOf, levelOf } from "../parts/columns.js";
import { useMarks } from "../parts/marks.js";
import { Empty } from "../parts/notice.js";
import { useQueues } from "../parts/queues.js";
import { Spark } from "../parts/spark.js";
import { Table } from "../parts/table.js";
import { indexOf, median } from "../time/figures.js";

const SPARK_WINDOWS = 120;

function View() {
  const begun = useStore((state) => state.windows.length > 0 && state.overview != null);
  const ended = useStore((state) => state.connection.ended);
  if (!begun) {
    return html`<${Empty}>${ended ? "The application ended before its first window." : "Waiting for the first window."}</>`;
  }
  return html`
    <section class="overview-cards" aria-label="In short">
      <${Windows} />
      <${Ages} />
      <${Backlog} />
      <${Promises} />
    </section>
    <${Path} />
    <${Operators} />
  `;
}

function Card({ title, figure, kind = "", children }) {
  return html`<div class="card overview-card">
    <h2>${title}</h2>
    <p class=${`overview-figure ${kind}`}>${figure}</p>
    ${children}
  </div>`;
}

function Windows() {
  const windows = useStore((state) => state.windows);
  const window = useStore((state) => state.shown?.window);
  const values = useMemo(() => windows.slice(-SPARK_WINDOWS).map((one) => one.latencyMs), [windows]);
  const sorted = useMemo(() => [...values].sort((one, other) => one - other), [values]);
  const regions = useMemo(() => byRegion(windows), [windows]);
  const happened = useMarks();
  const marks = useMemo(() => {
    const last = windows.slice(-SPARK_WINDOWS);
    return happened.map((mark) => ({ ...mark, index: indexOf(last, mark) }));
  }, [happened, windows]);
  if (regions.length > 1) {
    return html`<${Card} title=${window?.region ? `Latency of the window, region ${window.region}` : "Latency of the window"} figure=${milliseconds(window?.latencyMs)}>
      <ul class="overview-list">
        ${regions.map(([region, own]) => html`<li key=${region}>
          <a href=${href({ view: "time" })}>${region}</a><span class="muted">median of ${plural(own.length, "window")}</span>
          <span class="number">${milliseconds(median(own.map((one) => one.latencyMs)))}</span></li>`)}
      </ul>
    </>`;
  }
  return html`<${Card} title="Latency of the window" figure=${milliseconds(window?.latencyMs)}>
    <${Spark} values=${values} label=${`Latency of the last ${plural(values.length, "window")}`} height=${28} marks=${marks} />
    <p class="muted">median ${milliseconds(sorted[Math.floor(sorted.length / 2)])}, longest ${milliseconds(sorted[sorted.length - 1])} of ${plural(values.length, "window")}</p>
  </>`;
}

// The last windows of each region: those of two are not compared with each other.
function byRegion(windows) {
  const regions = [...new Set(windows.map((one) => one.region))].sort();
  return regions.map((region) => [region, windows.filter((one) => one.region === region).slice(-SPARK_WINDOWS)]);
}

// How old records are where they leave the application.
function Ages() {
  const rows = useStore((state) => state.overview.recordAge.operators);
  const operators = useStore((state) => state.overview.operators);
  const queues = useQueues();
  const places = rows.filter((row) => ["publish", "commit"].includes(row.at) && row.p99Ms != null && !queues.has(operators[row.id]?.logicalName));
  const published = new Set(places.filter((row) => row.at === "publish").map((row) => row.operator));
  const sinks = places.filter((row) => row.at === "publish" || !published.has(row.operator));
  sinks.sort((one, other) => other.p99Ms - one.p99Ms);
  if (!sinks.length) {
    return html`<${Card} title="Age of records at sinks" figure="-"><p class="muted">No sink has had records with a time in the last minute.</p></>`;
  }
  return html`<${Card} title="Age of records at sinks, p99" figure=${percentile(sinks[0].p99Ms)}>
    <ul class="overview-list">
      ${sinks.slice(0, 3).map((row) => html`<li key=${row.id}>
        <a href=${href({ view: "graph", operator: row.operator })} title=${row.operator}>${cut(row.operator, 32)}</a>
        <span class="muted">${percentile(row.p50Ms)} median</span><span class="number">${percentile(row.p99Ms)}</span>
      </li>`)}
    </ul>
    ${sinks.length > 3 && html`<p class="muted">and ${plural(sinks.length - 3, "sink")} more</p>`}
  </>`;
}

function Backlog() {
  const application = useStore((state) => state.overview.progress.application);
  const { backlogRecords, backlogSeconds, infinite, caughtUpAt, verdict, windowsBehind, unreachable } = application;
  const age = oldest(application);
  const size = backlogRecords == null ? "" : plural(Math.round(backlogRecords), "record");
  const time = infinite ? "unbounded" : backlogSeconds == null ? "" : duration(backlogSeconds);
  return html`<${Card} title="Backlog" figure=${verdict ?? "unknown"} kind=${levelOf("sources", "verdict", verdict)}>
    <p>${[size, infinite ? time : time && `${time} of work`, age && `the oldest waits for ${age}`].filter(Boolean).join(", ") || html`<span class="muted">No source says what waits.</span>`}</p>
    <p class="muted">
      ${[
        windowsBehind ? `${plural(windowsBehind, "window")} behind the schedule` : "",
        caughtUpAt ? `caught up at ${timeOfDay(caughtUpAt)}` : "",
        unreachable?.length ? `no answer from ${unreachable.join(", ")}` : "",
      ].filter(Boolean).join("; ")}
    </p>
  </>`;
}

function Promises() {
  const promises = useStore((state) => state.overview.promises);
  if (!promises?.length) return null;
  const broken = promises.filter((one) => one.kept === false);
  const figure = broken.length ? `${count(broken.length)} of ${count(promises.length)} broken` : promises.every((one) => one.kept) ? `${count(promises.length)} kept` : "none broken";
  return html`<${Card} title="Promises" figure=${figure} kind=${broken.length ? "bad" : promises.every((one) => one.kept) ? "ok" : ""}>
    <ul class="overview-list">${(broken.length ? broken : promises).slice(0, 3).map((one) => html`<li><a href=${href({ view: "promises", promise: one.promise })} title=${one.promise}>${cut(one.promise, 32)}</a><span class="muted">since ${timeOfDay(one.since)}</span></li>`)}</ul>
  </>`;
}

// The critical path, each step as wide as its share.
function Path() {
  const path = useStore((state) => state.shown?.criticalPath);
  const operators = useStore((state) => state.overview.operators);
  const opens = (step) => (step.kind === "queue" ? operators[step.id]?.operator : step.operator);
  const steps = path?.path ?? [];
  if (!steps.length) return null;
  const longest = Math.max(...steps.map((step) => step.latencyMs ?? 0));
  return html`<section class="card overview-path" aria-label="Critical path">
    <h2>Critical path <span class="accent">${milliseconds(path.latencyMs)}</span>${path.windowLatencyMs != null && html`<span class="muted"> of ${milliseconds(path.windowLatencyMs)}</span>`}</h2>
    <ol>
      ${steps.map((step) => html`<li key=${`${step.kind ?? ""} ${step.id}`} class=${step.latencyMs === longest ? "longest" : ""} style=${{ "--ms": Math.max(0.02, (step.latencyMs ?? 0) / (longest || 1)) }}>
        <a href=${href({ view: "graph", operator: opens(step) })} title=${step.operator}>${cut(step.operator)}</a>
        <span class="number">${milliseconds(step.latencyMs)}</span>
      </li>`)}
    </ol>
  </section>`;
}

function Operators() {
  const operators = useStore((state) => state.overview.operators);
  const shown = useStore((state) => state.shown);
  const { params } = useRoute();
  const rows = useMemo(() => makeRows(operators, shown), [operators, shown]);
  const most = Math.max(0.001, ...rows.map((row) => row.total));
  const selected = rows.find((row) => row.operator === params.operator || row.logicalName === params.operator);
  return html`
    <div class="overview-head"><h2>Operators</h2><${BarLegend} /></div>
    <${Table}
      label="Operators"
      columns=${makeColumns(rows, most)}
      rows=${rows}
      id=${(row) => row.id}
      sort=${{ by: "latencyMs", descending: true }}
      selected=${selected?.id}
      onOpen=${(row) => go({ view: "graph", operator: row.operator })}
      rowClass=${(row) => (row.critical ? "critical" : "")}
    />
  `;
}

function makeRows(operators, shown) {
  const times = shown?.latency?.operators ?? {};
  const critical = new Set((shown?.criticalPath?.path ?? []).map((step) => step.id));
  const unknown = { latencyMs: null, computeMs: 0, waitMs: 0, transferMs: 0, p99Ms: null, estimated: false };
  return Object.values(operators).map((operator) => {
    const row = { ...operator, ...unknown, ...times[operator.id], critical: critical.has(operator.id) };
    return { ...row, total: row.computeMs + row.waitMs + row.transferMs };
  });
}

function makeColumns(rows, most) {
  const title = (row) => html`<span class=${row.critical ? "accent" : ""} title=${row.operator}>${cut(row.operator)}</span>`;
  const [operator, latency, p99] = columnsOf("latency", rows, { cells: { operator: title }, names: ["operator", "latencyMs", "p99Ms"] });
  const bar = (row) => html`<${Bar} compute=${row.computeMs} wait=${row.waitMs} transfer=${row.transferMs} of=${most} />`;
  const [status, ...rates] = columnsOf("operators", rows, { names: ["status", "tuplesProcessedPSMA", "tuplesEmittedPSMA", "failureCount"] });
  return [operator, latency, { name: "bar", title: "Compute, wait, transfer", value: (row) => row.total, cell: bar }, p99, ...rates, status];
}

export default { name: "overview", title: "Overview", View };
