// Sources: what waits in each, what comes and is taken, and when it will have caught up.
import { html, useMemo } from "../vendor/preact.js";
import { bytes, count, duration, oldest, rate, soon, timeOfDay } from "../format.js";
import { go } from "../router.js";
import { useStore } from "../store.js";
import { useAsked } from "../parts/asked.js";
import { Detail, Facts, Listing } from "../parts/facts.js";
import { Empty, Notice } from "../parts/notice.js";
import { Table } from "../parts/table.js";

const WORST = ["unreachable", "stuck", "falling behind", "holding", "settling", "catching up", "unknown", "paced", "keeping up"];
const CLASSES = { "keeping up": "ok", paced: "ok", "catching up": "", holding: "behind", settling: "muted", unknown: "muted", "falling behind": "bad", stuck: "bad", unreachable: "bad" };
const BASES = { estimated: "about ", schedule: "about ", "lower bound": "at least " };

function View() {
  const overview = useStore((state) => state.overview);
  const sources = overview?.progress?.sources;
  const rows = useMemo(() => Object.values(sources ?? {}), [sources]);
  const at = overview?.at;
  const queues = overview?.progress?.queues ?? [];
  if (!overview?.window && !rows.length) return html`<${Empty}>Waiting for the first window.</>`;
  if (!rows.length && !queues.length) return html`<${Empty}>No source says how much waits in it. The verdict follows from the schedule of windows then.</>`;
  return html`<${Listing} label="Sources" by="source" id=${(row) => row.operator} columns=${columns(at)} rows=${rows} sort=${{ by: "verdict", descending: false }}
    before=${rows.length > 0 && html`<${Catch} ...${{ rows, at }} />`} detail=${(row) => html`<${Source} ...${{ row, overview }} />`}>
    ${queues.length > 0 && html`<h2 class="sources-queues">Queues between regions</h2>
      <${Table} label="Queues between regions" columns=${queueColumns(at)} rows=${queues} id=${(row) => `${row.stream} ${row.reader}`} sort=${{ by: "verdict", descending: false }}
        onOpen=${(row) => go({ view: "graph", operator: row.reader })} />`}
  </>`;
}

function queueColumns(at) {
  return [
    { name: "queue", title: "Queue", value: (row) => row.stream },
    { name: "from", title: "From", value: (row) => row.writerRegion },
    { name: "to", title: "To", value: (row) => row.readerRegion },
    { name: "verdict", title: "Verdict", value: (row) => WORST.indexOf(row.verdict), cell: (row) => html`<span class=${row.full ? "bad" : (CLASSES[row.verdict] ?? "")}>${row.full ? "full" : row.verdict}</span>` },
    { name: "waits", title: "Waits", number: true, value: (row) => row.backlogRecords, cell: (row) => `${count(row.backlogRecords)}, ${bytes(row.backlogBytes)}` },
    { name: "oldest", title: "Oldest", number: true, value: (row) => row.backlogSeconds, cell: (row) => duration(row.backlogSeconds) },
    { name: "written", title: "Written per s", number: true, value: (row) => row.writtenPerSecond, cell: (row) => rate(row.writtenPerSecond) },
    { name: "read", title: "Read per s", number: true, value: (row) => row.readPerSecond, cell: (row) => rate(row.readPerSecond) },
    { name: "full", title: "Full", number: true, value: (row) => row.fullInSeconds, cell: (row) => (row.fullInSeconds == null ? "-" : `in ${soon(row.fullInSeconds)}`) },
    { name: "caught", title: "Caught up", number: true, value: (row) => row.caughtUpAt, cell: (row) => (row.caughtUpAt == null ? "-" : `in ${soon(row.caughtUpAt - at)}`) },
  ];
}

// The answer to "will it catch up, and when?", in words.
function Catch({ rows, at }) {
  const worst = [...rows].sort((first, second) => WORST.indexOf(first.verdict) - WORST.indexOf(second.verdict))[0];
  return html`<p class="sources-verdict">${catchText(worst, at)}</p>`;
}

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
    case "holding":
    case "falling behind": // of rates that are not known nothing is said, as in the sentence above
      return html`${name} will not catch up at this pace${row.arrivalPerSecond == null || row.drainPerSecond == null ? "" : `: ${rate(row.arrivalPerSecond)} arrive and ${rate(row.drainPerSecond)} are worked off a second`}.`;
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

function waits(row) {
  const { value, basis, infinite } = row.backlog;
  if (infinite) return "no end";
  if (value == null) return "-";
  return `${BASES[basis] ?? ""}${row.unit === "bytes" ? bytes(value) : `${rate(value)} ${row.unit ?? ""}`}`;
}

function columns(at) {
  return [
    { name: "source", title: "Source", value: (row) => row.operator },
    { name: "verdict", title: "Verdict", value: (row) => WORST.indexOf(row.verdict), cell: (row) => html`<span class=${CLASSES[row.verdict] ?? ""}>${row.verdict}</span>` },
    { name: "waits", title: "Waits", number: true, value: (row) => row.backlog.value, cell: waits },
    { name: "seconds", title: "In time", number: true, value: (row) => row.backlogSeconds, cell: (row) => (row.infinite ? "no end" : duration(row.backlogSeconds)) },
    { name: "oldest", title: "Oldest", number: true, value: (row) => row.oldest.value, cell: (row) => oldest(row) ?? "-" },
    { name: "arrive", title: "Arrive per s", number: true, value: (row) => row.arrivalPerSecond, cell: (row) => rate(row.arrivalPerSecond) },
    { name: "taken", title: "Done per s", number: true, value: (row) => row.drainPerSecond, cell: (row) => rate(row.drainPerSecond) },
    { name: "caught", title: "Caught up", number: true, value: (row) => row.caughtUpAt, cell: (row) => (row.caughtUpAt == null ? "-" : `in ${soon(row.caughtUpAt - at)}`) },
  ];
}

function Source({ row, overview }) {
  const { answer } = useAsked("/watermarks", {}, { every: 2000 });
  const marks = new Map((answer?.operators ?? []).map((one) => [one.id, one]));
  const partitions = Object.values(overview.operators).filter((one) => one.logicalName === row.operator);
  const positions = useAsked(`/sources/${encodeURIComponent(row.operator)}`, {}, { every: 2000 });
  const found = new Map((positions.answer?.partitions ?? []).map((one) => [one.id, one]));
  return html`<${Detail} title=${row.operator} closes=${["source"]}>
    <${Facts} rows=${[
      ["Verdict", html`<span class=${CLASSES[row.verdict] ?? ""}>${row.verdict}</span>`],
      ["Waits", waits(row)],
      ["In records", row.backlogRecords == null ? null : count(row.backlogRecords)],
      ["In bytes", row.backlogBytes == null ? null : bytes(row.backlogBytes)],
      ["To work it off", row.infinite ? "no end" : row.backlogSeconds == null ? null : duration(row.backlogSeconds)],
      ["Oldest waits for", oldest(row)],
      ["Arrive", row.arrivalPerSecond == null ? null : `${rate(row.arrivalPerSecond)} per s`],
      ["Done", row.drainPerSecond == null ? null : `${rate(row.drainPerSecond)} per s`],
      ["Caught up", row.caughtUpAt == null ? null : `in ${soon(row.caughtUpAt - overview.at)}, at ${timeOfDay(row.caughtUpAt, overview.at)}`],
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
        { name: "left", title: "Waits", number: true, value: (one) => found.get(one.id)?.remaining, cell: (one) => (found.get(one.id)?.infinite ? "no end" : count(found.get(one.id)?.remaining)) },
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
