// Checkpoints: the windows that the run can go back to, and the command for it.
import { html, useMemo } from "../vendor/preact.js";
import { bytes, count, duration, timeOfDay } from "../format.js";
import { go, useRoute } from "../router.js";
import { useStore } from "../store.js";
import { useAsked } from "../parts/asked.js";
import { Copy } from "../parts/copy.js";
import { Detail, Facts, Split } from "../parts/facts.js";
import { Empty, Notice } from "../parts/notice.js";
import { Table } from "../parts/table.js";

function View() {
  const { answer, problem } = useAsked("/checkpoints", { limit: 100 }, { every: 5000 });
  const at = useStore((state) => state.overview?.at);
  const { params } = useRoute();
  const several = answer?.windows.some((row) => row.region != null) ?? false;
  const columns = useMemo(() => makeColumns(at, several), [at, several]);
  if (!answer) return problem ? html`<${Notice} problem=${problem} />` : html`<${Empty}>Reading the checkpoint.</>`;
  const rows = answer.windows;
  const chosen = rows.find((row) => String(row.windowId) === params.back && (row.region == null || row.region === params.of));
  return html`<${Split} detail=${chosen && html`<${Back} row=${chosen} at=${at} />`}>
    <p class="checkpoints-folder"><span class="muted">Folder</span> <code>${answer.folder || "-"}</code>
      ${answer.windowsKept != null && html`<span class="muted">at least ${count(answer.windowsKept)} windows are kept</span>`}</p>
    <${Notice} problem=${problem} />
    ${rows.length
      ? html`<${Table} label="Windows to go back to" columns=${columns} rows=${rows} id=${idOf} sort=${{ by: "window", descending: true }} selected=${chosen && idOf(chosen)} onOpen=${(row) => go({ back: row.windowId, of: row.region ?? null })} />`
      : html`<${Empty}>${answer.note || "No window is committed yet."}</>`}
  </>`;
}

function idOf(row) {
  return `${row.region ?? ""} ${row.windowId}`;
}

function makeColumns(at, several) {
  return [
    ...(several ? [{ name: "region", title: "Region", value: (row) => row.region }] : []),
    { name: "window", title: "Window", number: true, value: (row) => row.windowId, cell: (row) => count(row.windowId) },
    { name: "committed", title: "Committed", value: (row) => row.committedAt, cell: (row) => committed(row, at) ?? "-" },
    { name: "size", title: "State", number: true, value: (row) => row.stateBytes, cell: (row) => bytes(row.stateBytes) },
    { name: "files", title: "Files", number: true, value: (row) => row.stateFiles, cell: (row) => count(row.stateFiles) },
    { name: "plan", title: "Plan", number: true, value: (row) => row.planVersion, cell: (row) => count(row.planVersion) },
    { name: "note", title: "Note", sort: false, value: () => "", cell: note },
  ];
}

// When a window was committed; null if that is not known. `at`: now, undefined before the first figures.
function committed(row, at) {
  if (row.committedAt == null || at == null) return null;
  return `${timeOfDay(row.committedAt, at)}, ${duration(Math.max(0, at - row.committedAt))} ago`;
}

function note(row) {
  return [row.rewoundTo != null && `repeats window ${row.rewoundTo}`, row.ended && "all inputs had finished"].filter(Boolean).join(", ");
}

function Back({ row, at }) {
  return html`<${Detail} title=${`Back to window ${count(row.windowId)}${row.region ? ` of ${row.region}` : ""}`} closes=${["back", "of"]}>
    <${Facts} label="Window" rows=${[
      ["Committed", committed(row, at)],
      ["State", row.stateBytes == null ? null : `${bytes(row.stateBytes)} in ${count(row.stateFiles)} files`],
      ["Plan", `version ${row.planVersion}`],
      ["Note", note(row)],
    ]} />
    <p class="checkpoints-how">End the application first. Then start it with this command: states, positions and outputs are as of this window, and later windows are void.</p>
    <${Copy} text=${row.command} />
    <p class="muted checkpoints-how">State files are checked when it starts. Nothing has changed if it is refused.</p>
  </>`;
}

export default { name: "checkpoints", title: "Checkpoints", View };
