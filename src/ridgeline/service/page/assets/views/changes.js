// Changes and decisions: who, why, what was expected, what came of it, and whether it helped.
import { html, useMemo } from "../vendor/preact.js";
import { count, duration, milliseconds, plural, timeOfDay } from "../format.js";
import { href } from "../router.js";
import { useStore } from "../store.js";
import { useAsked } from "../parts/asked.js";
import { Detail, Facts, Listing } from "../parts/facts.js";
import { Words } from "../parts/marks.js";
import { Empty, Notice } from "../parts/notice.js";
import { beforeAndAfter } from "../time/figures.js";

const STATES = { QUEUED: "waits", APPLIED: "applied", REFUSED: "refused", WITHDRAWN: "withdrawn", ASKED: "asked for", HELPED: "helped", MISSED: "did not help", FAILED: "failed" };
const CLASSES = { FAILED: "bad", REFUSED: "bad", MISSED: "bad", HELPED: "ok", QUEUED: "behind" };

function View() {
  const newest = useStore(({ overview }) => overview?.change && `${overview.change.id} ${overview.change.state}`);
  const changes = useAsked("/changes", {}, { every: 3000, key: newest ?? "" });
  const decisions = useAsked("/decisions", {}, { every: 3000, key: newest ?? "" });
  const windows = useStore((state) => state.windows);
  const regions = useStore((state) => state.plan?.queues?.length && state.overview?.operators);
  const rows = useMemo(
    () => together((changes.answer?.changes ?? []).map((one) => inRegion(one, regions)), decisions.answer?.decisions ?? [], windows),
    [changes.answer, decisions.answer, windows],
  );
  if (!changes.answer) return changes.problem ? html`<${Notice} problem=${changes.problem} />` : html`<${Empty}>Waiting for the answer.</>`;
  if (!rows.length) {
    return html`<${Empty}>Nothing was changed in this run, and no policy has decided anything. A change is asked for at an operator, or by <code>ridgeline set-operator-property</code>.</>`;
  }
  return html`<${Listing} label="Changes and decisions" by="change" id=${(row) => row.key} columns=${COLUMNS} rows=${rows}
    sort=${{ by: "at", descending: true }} detail=${(row) => html`<${One} row=${row} />`} />`;
}

// Ids of a region's changes and operators begin with its number, times a million.
function inRegion(change, operators) {
  if (!operators || change.region != null) return change;
  const number = (id) => Math.floor(id / 1_000_000);
  const region = Object.values(operators).find((one) => number(one.id) === number(change.id))?.region;
  return region == null ? change : { ...change, region };
}

// A row for each change, with the decision that asked for it; and one for each decision without a change.
function together(changes, decisions, windows) {
  const applied = changes.filter((one) => one.state === "APPLIED" && one.window != null);
  const byChange = new Map(decisions.filter((one) => one.change != null).map((one) => [one.change, one]));
  const rows = changes.map((change) => {
    const decision = byChange.get(change.id) ?? null;
    byChange.delete(change.id);
    return make(`change-${change.id}`, change, decision, windows, applied);
  });
  const taken = new Set(rows.map((row) => row.decision?.id));
  for (const decision of decisions) {
    if (!taken.has(decision.id)) rows.push(make(`decision-${decision.id}`, null, decision, windows, applied));
  }
  return rows;
}

function make(key, change, decision, windows, applied) {
  const window = change?.state === "APPLIED" ? change.window : null;
  const effect = window == null ? { before: null, after: null } : effectOf(change, windows, applied);
  const said = decision && ["HELPED", "MISSED"].includes(decision.state) ? decision.state : (change?.state ?? decision.state);
  return { key, change, decision, at: change?.at ?? decision.at, who: change?.who ?? decision.by, what: change?.what ?? decision.what, note: change?.note || decision?.note || "", window, said, ...effect };
}

// The latency of windows before a change and from it on, up to the changes around it.
function effectOf(change, windows, applied) {
  const others = applied.filter((one) => one.region === change.region && one !== change).map((one) => one.window);
  return beforeAndAfter(windows, change.window, {
    region: change.region,
    from: Math.max(...others.filter((one) => one < change.window)),
    to: Math.min(...others.filter((one) => one > change.window)),
  });
}

function state(row) {
  return html`<span class=${CLASSES[row.said] ?? ""}>${STATES[row.said] ?? row.said.toLowerCase()}</span>`;
}

// How the median latency of windows changed, in words.
function effect(row) {
  if (row.before == null || row.after == null) return html`<span class="muted">${row.window == null ? "-" : "too few windows"}</span>`;
  const ratio = row.after / row.before;
  const name = ratio <= 0.9 ? "ok" : ratio >= 1.1 ? "behind" : "muted";
  return html`<span class=${name}>${milliseconds(row.before)} → ${milliseconds(row.after)}</span>`;
}

const COLUMNS = [
  { name: "at", title: "When", value: (row) => row.at, cell: (row) => timeOfDay(row.at) },
  { name: "what", title: "What", value: (row) => row.what, cell: (row) => html`<span class="changes-what"><${Words} text=${row.what} /></span>` },
  { name: "who", title: "Who", value: (row) => row.who },
  { name: "state", title: "State", value: (row) => row.said, cell: state },
  { name: "window", title: "From window", number: true, value: (row) => row.window, cell: (row) => (row.window == null ? "-" : html`<a href=${href({ view: "time", window: row.window, region: row.change.region ?? null })}>${count(row.window)}</a>`) },
  { name: "effect", title: "Window latency", number: true, value: (row) => (row.before ? row.after / row.before : null), cell: effect },
  { name: "why", title: "Why", extra: true, value: (row) => row.note, cell: (row) => html`<span class="changes-what">${row.note || "-"}</span>` },
];

function One({ row }) {
  const { change, decision } = row;
  const held = change?.heldSeconds ?? null;
  return html`<${Detail} title=${html`<${Words} text=${row.what} />`} label="Change" closes=${["change"]}>
    <${Facts} label="Change" rows=${[
      ["State", state(row)],
      ["Who", row.who],
      ["Why", row.note],
      ["Asked for", timeOfDay(row.at)],
      ["Has effect from", row.window == null ? null : html`<a href=${href({ view: "time", window: row.window, region: change.region ?? null })}>window ${count(row.window)}</a>`],
      ["Windows waited", held ? duration(held) : null],
      ["Reason", change?.reason],
      ["Result", change?.result],
    ]} />
    ${row.window != null && html`<h3>Did it help?</h3><p>${helped(row)}</p>`}
    ${decision && html`<h3>Decision ${count(decision.id)}</h3>
      <${Facts} label="Decision" rows=${[
        ["By", decision.by],
        ["Why", decision.note],
        ["Expected", decision.expected],
        ["Found", decision.found],
        ["Takes back", decision.undoes == null ? null : `decision ${decision.undoes}`],
      ]} />`}
    ${change?.edits.length > 0 && html`<h3>${plural(change.edits.length, "edit")}</h3><pre class="mono changes-edits">${change.edits.map((edit) => JSON.stringify(edit)).join("\n")}</pre>`}
  </>`;
}

function helped(row) {
  if (row.before == null || row.after == null) return html`<span class="muted">Too few windows are known on both sides of it.</span>`;
  const ratio = row.after / row.before;
  const word = ratio <= 0.9 ? html`<b class="ok">faster</b>` : ratio >= 1.1 ? html`<b class="behind">slower</b>` : html`<b>about as fast</b>`;
  return html`Windows are ${word}: median latency of ${milliseconds(row.before)} before it, ${milliseconds(row.after)} from it on.`;
}

export default { name: "changes", title: "Changes", View };
