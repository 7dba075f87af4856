// The list of runs that have ended: each with its sentence. `ridgeline history` serves it.
import { html, render, useState } from "./vendor/preact.js";
import { bytes, count, duration, plural, timeOfDay } from "./format.js";
import { Empty, Notice } from "./parts/notice.js";
import { usePolling } from "./parts/polling.js";
import { State } from "./parts/state.js";
import { Table } from "./parts/table.js";
import { Mark } from "./parts/mark.js";

const EVERY_MS = 2000;
const GONE = { error: "The history does not answer.", hint: "`ridgeline history` may have ended: start it again." };
const ORDER = ["failed", "strange", "running", "asking", "ended"];
const WORDS = { asking: "not read yet", strange: "not readable" };

function Runs() {
  const [runs, setRuns] = useState(null);
  const [problem, setProblem] = useState(null);
  async function ask(counts) {
    try {
      const response = await fetch(new URL("runs", document.baseURI), { cache: "no-store" });
      const found = (await response.json()).runs;
      if (!counts()) return;
      setRuns(found);
      setProblem(null);
    } catch {
      setProblem(GONE);
    }
  }
  usePolling(ask, () => EVERY_MS, []);
  return html`<header class="frame-head">
      <div class="frame-line">
        <${Mark} />
        <h1 class="frame-name">Runs</h1>
        <span class="space"></span>
      </div>
      <p class="sentence" role="status">${runs ? summary(runs) : "Reading the folder."}</p>
    </header>
    <main class="runs" id="main">
      <${Notice} problem=${problem} />
      ${runs && html`<${List} runs=${runs} />`}
    </main>`;
}

function List({ runs }) {
  if (!runs.length) return html`<${Empty}>There is no event log here. ${html`<code>ridgeline run APP --event-log FILE</code>`} writes one.</>`;
  const columns = [
    { name: "name", title: "Run", value: (run) => run.name || run.file, cell: (run) => html`<a class="runs-name" href=${place(run.id)}>${run.name || run.file}</a><span class="runs-file">${run.file}</span>` },
    { name: "state", title: "State", value: (run) => ORDER.indexOf(run.state), cell: (run) => html`<${State} state=${run.state} />` },
    { name: "sentence", title: "How it did", sort: false, value: (run) => run.sentence, cell: (run) => html`<${Said} run=${run} />` },
    { name: "began", title: "Began", number: true, value: (run) => run.began, cell: (run) => html`${timeOfDay(run.began)}${run.ended != null && html`<span class="runs-file">for ${duration(Math.max(0, run.ended - run.began))}</span>`}` },
    { name: "windows", title: "Windows", number: true, value: (run) => run.windows, cell: (run) => html`${count(run.windows)}<span class="runs-file">${bytes(run.bytes)}</span>` },
  ];
  return html`<${Table} label="Runs" columns=${columns} rows=${runs} id=${(run) => run.id} sort=${{ by: "began", descending: true }} onOpen=${(run) => location.assign(place(run.id))} />`;
}

function Said({ run }) {
  const rest = [run.problem && run.state !== "failed" ? run.problem : "", ...run.notes].filter(Boolean);
  return html`<span class=${`runs-said ${run.sentence ? "" : "muted"}`}>${run.sentence || (run.state === "asking" ? "Its log is not read yet." : run.problem)}</span>
    ${run.sentence && rest.map((text) => html`<span key=${text} class="runs-said">${text}</span>`)}`;
}

function place(id) {
  return `run/${encodeURIComponent(id)}/`;
}

// In words: how many there are, and how they ended.
function summary(runs) {
  const counts = new Map();
  for (const run of runs) counts.set(run.state, (counts.get(run.state) ?? 0) + 1);
  const parts = ORDER.filter((state) => counts.has(state)).map((state) => `${count(counts.get(state))} ${WORDS[state] ?? state}`);
  return `${plural(runs.length, "run")}${parts.length ? `: ${parts.join(", ")}` : ""}.`;
}

render(html`<${Runs} />`, document.getElementById("page"));
