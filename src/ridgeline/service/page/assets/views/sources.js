// Sources: what waits in each, what comes and is taken, and when it will have caught up.
import { html, useMemo } from "../vendor/preact.js";
import { bytes, count, duration, rate, soon, timeOfDay } from "../format.js";
import { go } from "../router.js";
import { useStore } from "../store.js";
import { useAsked } from "../parts/asked.js";
import { columnsOf, factsOf, worst } from "../parts/columns.js";
import { Detail, Facts, Listing } from "../parts/facts.js";
import { Empty, Notice } from "../parts/notice.js";
import { Table } from "../parts/table.js";

function View() {
  const overview = useStore((state) => state.overview);
  const sources = overview?.progress?.sources;
  const rows = useMemo(() => Object.values(sources ?? {}), [sources]);
  const at = overview?.at;
  const queues = overview?.progress?.queues ?? [];
  if (!overview?.window && !rows.length) return html`<${Empty}>Waiting for the first window.</>`;
  if (!rows.length && !queues.length) return html`<${Empty}>No source says how much waits in it. The verdict follows from the schedule of windows then.</>`;
  const columns = columnsOf("sources", rows, { at });
  return html`<${Listing} label="Sources" by="source" id=${(row) => row.operator} ...${{ rows, columns }} sort=${{ by: "verdict", descending: false }}
    before=${rows.length > 0 && html`<p class="sources-verdict">${catchText(worst(rows, columns, "verdict"), at)}</p>`} detail=${(row) => html`<${Source} ...${{ row, columns, overview }} />`}>
    ${queues.length > 0 && html`<h2 class="sources-queues">Queues between regions</h2>
      <${Table} label="Queues between regions" columns=${columnsOf("queues", queues, { at })} rows=${queues} id=${(row) => `${row.stream} ${row.reader}`} sort=${{ by: "verdict", descending: false }}
        onOpen=${(row) => go({ view: "graph", operator: row.reader })} />`}
  </>`;
}

// The answer to "will it catch up, and when?", in words.
function catchText(row, at) {
  const name = html`<b>${row.operator}</b>`;
  switch (row.verdict) {
    case "keeping up":
      return html`All sources keep up: nothing waits that the next windows do not take.`;
    case "paced":
      return html`${name} holds back what is not due yet; nothing else waits.`;
    case "catching up":
      return row.caughtUpAt == null
        ? html`${name} catches up.`
        : html`${name} will have caught up in <b>${soon(row.caughtUpAt - at)}</b>, at ${timeOfDay(row.caughtUpAt, at)}.`;
    case "not catching up":
    case "falling behind": // of rates that are not known nothing is said, as in the sentence above
      return html`${name} will not catch up at this pace${row.arrivalPerSecond == null || row.drainPerSecond == null ? "" : `: ${rate(row.arrivalPerSecond)} arrive and ${rate(row.drainPerSecond)} are processed a second`}.`;
    case "stuck":
      return html`${name} is stuck: records wait, and none is taken.`;
    case "unreachable":
      return html`${name} does not answer: ${row.problem}`;
    case "settling":
      return html`The run, or its plan, has just begun: too little was seen to say whether ${name} keeps up.`;
    default:
      return html`Too little was seen of ${name} to say whether it keeps up.`;
  }
}

function Source({ row, columns, overview }) {
  const { answer } = useAsked("/watermarks", {}, { every: 2000 });
  const marks = new Map((answer?.operators ?? []).map((one) => [one.id, one]));
  const partitions = Object.values(overview.operators).filter((one) => one.logicalName === row.operator);
  const positions = useAsked(`/sources/${encodeURIComponent(row.operator)}`, {}, { every: 2000 });
  const found = new Map((positions.answer?.partitions ?? []).map((one) => [one.id, one]));
  return html`<${Detail} title=${row.operator} closes=${["source"]}>
    <${Facts} rows=${[
      ...factsOf(columns.slice(1), row),
      ["In records", row.backlogRecords == null ? null : count(row.backlogRecords)],
      ["In bytes", row.backlogBytes == null ? null : bytes(row.backlogBytes)],
      ["Known", row.basis],
      ["Reported", row.asOf == null ? null : `${duration(Math.max(0, overview.at - row.asOf))} ago`],
    ]} label="Source" />
    ${row.problem && html`<${Notice}><p>${row.problem}</p></>`}
    <h3>Partitions</h3>
    <${Table}
      label="Partitions"
      columns=${[
        { name: "partition", title: "Partition", value: (one) => one.operator },
        { name: "read", title: "Read", number: true, value: (one) => found.get(one.id)?.consumed, cell: (one) => count(found.get(one.id)?.consumed) },
        { name: "left", title: "Waits", number: true, value: (one) => found.get(one.id)?.remaining, cell: (one) => (found.get(one.id)?.infinite ? "unbounded" : count(found.get(one.id)?.remaining)) },
        { name: "out", title: "Out per s", number: true, value: (one) => one.tuplesEmittedPSMA, cell: (one) => rate(one.tuplesEmittedPSMA) },
        { name: "mark", title: "Watermark", number: true, value: (one) => marks.get(one.id)?.lagSeconds, cell: (one) => watermark(marks.get(one.id)) },
      ]}
      rows=${partitions}
      id=${(one) => one.id}
      sort=${{ by: "left", descending: true }}
    />
    ${positions.answer?.position != null && html`<h3>Position after the last commit</h3><pre class="mono sources-position">${JSON.stringify(positions.answer.position, null, 1)}</pre>`}
  </>`;
}

function watermark(mark) {
  if (!mark) return "-";
  return mark.lagSeconds == null ? mark.state : `${duration(mark.lagSeconds)} behind`;
}

export default { name: "sources", title: "Sources", View };
