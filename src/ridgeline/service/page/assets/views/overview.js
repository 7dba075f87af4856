// The first view: every operator with where its time goes, the slowest first.
import { html, useMemo } from "../vendor/preact.js";
import { count, milliseconds, percentile, rate } from "../format.js";
import { go, href, useRoute } from "../router.js";
import { useStore } from "../store.js";
import { Bar, BarLegend } from "../parts/bar.js";
import { Empty } from "../parts/notice.js";
import { Spark } from "../parts/spark.js";
import { Table } from "../parts/table.js";

function View() {
  const overview = useStore((state) => state.overview);
  const shown = useStore((state) => state.shown);
  const windows = useStore((state) => state.windows);
  const { params } = useRoute();
  const operators = overview?.operators;
  const rows = useMemo(() => makeRows(operators, shown), [operators, shown]);
  const most = Math.max(1, ...rows.map((row) => row.total));
  const columns = useMemo(() => makeColumns(most), [most]);
  if (!windows.length || !rows.length) return html`<${Empty}>Waiting for the first window.</>`;
  const path = shown?.criticalPath?.path ?? [];
  return html`
    <section class="overview-top">
      <div class="card">
        <h2>Latency of windows</h2>
        <p class="overview-figure number">${milliseconds(shown?.window?.latencyMs)}</p>
        <${Spark} values=${windows.slice(-120).map((one) => one.latencyMs)} label="Latency of the last 120 windows" height=${32} />
      </div>
      <div class="card overview-path">
        <h2>Critical path <span class="accent">${milliseconds(shown?.criticalPath?.latencyMs)}</span></h2>
        <ol>
          ${path.map((step) => html`<li key=${step.id}>
            <a href=${href({ operator: step.operator })}>${step.operator}</a> <span class="muted">${milliseconds(step.latencyMs)}</span>
          </li>`)}
        </ol>
      </div>
    </section>
    <div class="overview-head"><h2>Operators</h2><${BarLegend} /></div>
    <${Table}
      label="Operators"
      columns=${columns}
      rows=${rows}
      id=${(row) => row.id}
      sort=${{ by: "latency", descending: true }}
      selected=${rows.find((row) => row.title === params.operator)?.id}
      onOpen=${(row) => go({ operator: row.title })}
      rowClass=${(row) => (row.critical ? "critical" : "")}
    />
  `;
}

function makeRows(operators, shown) {
  if (!operators) return [];
  const times = shown?.latency?.operators ?? {};
  const critical = new Set((shown?.criticalPath?.path ?? []).map((step) => step.id));
  return Object.values(operators).map((operator) => {
    const time = times[operator.id] ?? {};
    const total = (time.computeMs ?? 0) + (time.waitMs ?? 0) + (time.transferMs ?? 0);
    return { id: operator.id, title: operator.operator, operator, time, total, critical: critical.has(operator.id) };
  });
}

function makeColumns(most) {
  return [
    { name: "operator", title: "Operator", value: (row) => row.title, cell: (row) => html`<span class=${row.critical ? "accent" : ""}>${row.title}</span>` },
    { name: "latency", title: "Latency", number: true, value: (row) => row.time.latencyMs, cell: (row) => milliseconds(row.time.latencyMs) },
    {
      name: "bar",
      title: "Compute, wait, transfer",
      value: (row) => row.total,
      number: false,
      cell: (row) => html`<${Bar} compute=${row.time.computeMs} wait=${row.time.waitMs} transfer=${row.time.transferMs} of=${most} />`,
    },
    { name: "p99", title: "p99", number: true, value: (row) => row.time.p99Ms, cell: (row) => percentile(row.time.p99Ms) },
    { name: "in", title: "In per s", number: true, value: (row) => row.operator.tuplesProcessedPSMA, cell: (row) => rate(row.operator.tuplesProcessedPSMA) },
    { name: "out", title: "Out per s", number: true, value: (row) => row.operator.tuplesEmittedPSMA, cell: (row) => rate(row.operator.tuplesEmittedPSMA) },
    { name: "failures", title: "Failures", number: true, value: (row) => row.operator.failureCount, cell: (row) => count(row.operator.failureCount) },
    { name: "status", title: "Status", value: (row) => row.operator.status, cell: (row) => row.operator.status.toLowerCase() },
  ];
}

export default { name: "overview", title: "Overview", View };
