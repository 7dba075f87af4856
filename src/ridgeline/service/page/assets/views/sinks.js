// Sinks: what readers see, how old it is, and how it gets there.
import { html, useMemo } from "../vendor/preact.js";
import { count, duration, timeOfDay } from "../format.js";
import { href } from "../router.js";
import { useStore } from "../store.js";
import { useAsked } from "../parts/asked.js";
import { columnsOf } from "../parts/columns.js";
import { Detail, Facts, Listing } from "../parts/facts.js";
import { useQueues } from "../parts/queues.js";
import { MarkList, useMarks } from "../parts/marks.js";
import { Empty, Notice } from "../parts/notice.js";
import { Table } from "../parts/table.js";

const AGES = ["p50Ms", "p99Ms", "maxMs"];
const PROTOCOLS = {
  transactional: "rows and mark in one transaction: exactly once",
  idempotent: "rows may be written again, under the same keys: exactly once",
  staged: "staged before the commit, published after it",
  none: "no publisher: operators write by themselves",
};

function View() {
  const { answer, problem } = useAsked("/sinks");
  const at = useStore((state) => state.overview?.at);
  const queues = useQueues();
  const rows = useMemo(() => answer?.sinks.filter((row) => !queues.has(row.operator)), [answer, queues]);
  const columns = useMemo(() => makeColumns(at), [at]);
  if (!rows) return problem ? html`<${Notice} problem=${problem} />` : html`<${Empty}>Waiting for the answer.</>`;
  if (!rows.length) return html`<${Empty}>The application has no output operator.</>`;
  return html`<${Listing} label="Sinks" by="sink" id=${(row) => row.operator} ...${{ rows, columns }} sort=${{ by: "p99Ms", descending: true }}
    detail=${(row) => html`<${Sink} ...${{ row, at }} />`}>
    ${rows.every((row) => !ageOf(row)) && html`<p class="muted sinks-note">Ages are known where an input, or a schema, says which field is the time of a record.</p>`}
  </>`;
}

function ageOf(row) {
  return row.visibleAge ?? row.committedAge;
}

// False until a publisher has made something visible; an operator that writes by itself has none.
function isVisible(row) {
  return row.protocol === "none" || row.visibleWindow != null;
}

function state(row) {
  if (row.problem) return html`<span class="bad">does not get through</span>`;
  return isVisible(row) ? html`<span class="ok">gets through</span>` : html`<span class="muted">nothing visible yet</span>`;
}

function makeColumns(at) {
  const ages = columnsOf("ages", [], { names: AGES }).map((one) => ({
    ...one, title: `Age, ${one.title.toLowerCase()}`, value: (row) => one.read(ageOf(row)), cell: (row) => one.write(ageOf(row) ?? {}),
  }));
  return [
    { name: "sink", title: "Sink", value: (row) => row.operator, cell: (row) => (row.deadLetters ? html`${row.operator} <span class="muted">dead letters</span>` : row.operator) },
    { name: "state", title: "State", value: (row) => (row.problem ? 0 : isVisible(row) ? 2 : 1), cell: state },
    ...ages,
    { name: "visible", title: "Visible up to", number: true, value: (row) => row.visibleWindow, cell: (row) => (row.visibleWindow == null ? "-" : `window ${count(row.visibleWindow)}`) },
    { name: "since", title: "Since", number: true, value: (row) => row.visibleAt, cell: (row) => (row.visibleAt == null || at == null ? "-" : `${duration(Math.max(0, at - row.visibleAt))} ago`) },
    { name: "published", title: "Published", number: true, extra: true, value: (row) => row.timesPublished, cell: (row) => (row.timesPublished ? `${count(row.timesPublished)} times` : "-") },
    { name: "protocol", title: "Protocol", value: (row) => row.protocol },
  ];
}

function Sink({ row, at }) {
  const marks = useMarks().filter((mark) => mark.kind === "output" && mark.operator === row.operator);
  const region = useStore((state) => Object.values(state.overview?.operators ?? {}).find((one) => one.logicalName === row.operator)?.region);
  const ages = [row.committedAge, row.visibleAge].filter(Boolean);
  return html`<${Detail} title=${row.operator} closes=${["sink"]}>
    ${row.problem && html`<${Notice}><p>${row.problem}</p></>`}
    <${Facts} label="Sink" rows=${[
      ["Writes to", row.place],
      ["Protocol", `${row.protocol}: ${PROTOCOLS[row.protocol] ?? ""}`],
      ["Processing mode", row.mode.toLowerCase().replaceAll("_", " ")],
      ["Partitions", count(row.partitions)],
      ["Visible up to", row.visibleWindow == null ? null : html`<a href=${href({ view: "time", window: row.visibleWindow, region: region ?? null })}>window ${count(row.visibleWindow)}</a>`],
      ["Since", row.visibleAt == null ? null : `${timeOfDay(row.visibleAt, at)}`],
      ["Published", row.timesPublished ? `${count(row.timesPublished)} times` : "not yet"],
      ["Class", html`<code>${row.className}</code>`],
    ]} />
    ${ages.length > 0 && html`<h3>Ages of ${count(ages[0].count)} records${row.partitions > 1 ? ` at ${ages[0].operator}` : ""}, last minute</h3>
      <${Table} label="Ages of records" rows=${ages} id=${(age) => age.at} columns=${columnsOf("ages", ages, { names: ["at", ...AGES] })} />`}
    ${marks.length > 0 && html`<h3>What happened</h3><${MarkList} marks=${marks} limit=${10} />`}
  </>`;
}

export default { name: "sinks", title: "Sinks", View };
