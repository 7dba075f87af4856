// Promises: which is broken, since when, by how much.
import { html, useMemo } from "../vendor/preact.js";
import { count, duration, percent, plural, rate, timeOfDay } from "../format.js";
import { href } from "../router.js";
import { useStore } from "../store.js";
import { Detail, Facts, Listing } from "../parts/facts.js";
import { MarkList, useMarks } from "../parts/marks.js";
import { Empty } from "../parts/notice.js";

const KINDS = {
  latency: "how long the operator takes in a window, its waits too",
  window_latency: "how long a window takes",
  caught_up_within: "how long a backlog may last",
  error_share: "the share of tuples that fail",
  late_share: "the share of records that come too late",
  loss: "the share of what came in that is lost",
  record_age: "how old records are in the end",
  throughput: "tuples per second, at least",
};
const AT_LEAST = new Set(["throughput"]);

export function amount(value, unit) {
  if (value == null) return "-";
  return unit === "s" ? duration(value) : unit === "share" ? percent(value, 2) : `${rate(value)} ${unit}`;
}

// How much of what is allowed is used; above 1 the promise is broken.
function used(row) {
  if (row.figure == null || !row.limit) return null;
  return AT_LEAST.has(row.kind) ? row.limit / Math.max(row.figure, 1e-9) : row.figure / row.limit;
}

function View() {
  const overview = useStore((state) => state.overview);
  const rows = overview?.promises ?? [];
  const at = overview?.at;
  const columns = useMemo(() => makeColumns(at), [at]);
  if (!overview) return html`<${Empty}>Waiting for the application.</>`;
  if (!rows.length) {
    return html`<${Empty}>The application promises nothing. <code>app.promise(latency("store", p99="2s"))</code> would be watched here.</>`;
  }
  const broken = rows.filter((row) => row.kept === false).length;
  const sum = html`<p class="promises-sum">${broken ? html`<b class="bad">${plural(broken, "promise")} of ${count(rows.length)} broken</b>` : rows.every((row) => row.kept) ? html`<b class="ok">All kept</b>` : "None is broken"}</p>`;
  return html`<${Listing} label="Promises" by="promise" id=${(row) => row.promise} ...${{ rows, columns }} sort=${{ by: "state", descending: false }}
    before=${sum} detail=${(row) => html`<${One} ...${{ row, at }} />`} />`;
}

function word(row) {
  return row.kept === false ? html`<span class="bad">broken</span>` : row.kept ? html`<span class="ok">kept</span>` : html`<span class="muted">not known</span>`;
}

function makeColumns(at) {
  return [
    { name: "promise", title: "Promise", value: (row) => row.promise },
    { name: "state", title: "State", value: (row) => (row.kept === false ? 0 : row.kept == null ? 1 : 2), cell: word },
    { name: "since", title: "Since", value: (row) => row.since, cell: (row) => `${timeOfDay(row.since, at)}, ${duration(Math.max(0, at - row.since))} ago` },
    { name: "figure", title: "Measured then", number: true, value: (row) => row.figure, cell: (row) => amount(row.figure, row.unit) },
    { name: "limit", title: "Promised", number: true, value: (row) => row.limit, cell: (row) => `${AT_LEAST.has(row.kind) ? "≥" : "≤"} ${amount(row.limit, row.unit)}` },
    { name: "used", title: "Share of the limit", number: true, value: used, cell: (row) => (used(row) == null ? "-" : percent(used(row))) },
    { name: "seconds", title: "Broken in all", number: true, extra: true, value: (row) => row.brokenSeconds, cell: (row) => (row.brokenSeconds ? duration(row.brokenSeconds) : "-") },
    { name: "times", title: "Times", number: true, extra: true, value: (row) => row.timesBroken, cell: (row) => count(row.timesBroken) },
  ];
}

function One({ row, at }) {
  const marks = useMarks().filter((mark) => mark.kind === "promise" && mark.text.includes(`\`${row.promise}\``));
  return html`<${Detail} title=${row.promise} closes=${["promise"]}>
    <${Facts} label="Promise" rows=${[
      ["State", word(row)],
      ["Since", `${timeOfDay(row.since, at)}, ${duration(Math.max(0, at - row.since))} ago`],
      ["It is", KINDS[row.kind] ?? row.kind],
      ["Of", row.operator ? html`<a href=${href({ view: "graph", operator: row.operator })}>${row.operator}</a>` : "the application"],
      ["Measured when that began", amount(row.figure, row.unit)],
      ["Promised", `${AT_LEAST.has(row.kind) ? "at least" : "at most"} ${amount(row.limit, row.unit)}`],
      ["Beyond the limit by", row.kept === false && row.figure != null ? amount(Math.abs(row.figure - row.limit), row.unit) : null],
      ["Because", row.reason || null],
      ["Broken in this run", `${plural(row.timesBroken, "time")}, ${duration(row.brokenSeconds)} in sum`],
    ]} />
    <h3>What happened</h3>
    ${marks.length ? html`<${MarkList} marks=${marks} limit=${30} />` : html`<p class="muted">${row.timesBroken ? "That is not kept any more." : row.kept ? "It was kept all the time." : "It is not known yet."}</p>`}
  </>`;
}

export default { name: "promises", title: "Promises", View };
