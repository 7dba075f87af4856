// Compare: this run and another one side by side, with the differences of their figures.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { count, duration, milliseconds, percent, rate, timeOfDay } from "../format.js";
import { Frames, treeOf, all } from "../operator/flame.js";
import { go, useRoute } from "../router.js";
import { useAsked } from "../parts/asked.js";
import { colourOf, KINDS } from "../parts/marks.js";
import { Empty, Notice } from "../parts/notice.js";
import { State } from "../parts/state.js";
import { Table } from "../parts/table.js";

const SAME = 0.0005;
const LIKE = 0.05; // a difference of less is not coloured: two runs of the same differ as much

function View() {
  const { params } = useRoute();
  return html`<div class="compare">
    <${Choice} other=${params.with} />
    ${params.with ? html`<${Pair} key=${params.with} other=${params.with} />` : html`<${Empty}>Choose the run to compare this one with.</>`}
  </div>`;
}

// The other runs there are, to choose one.
function Choice({ other }) {
  const [runs, setRuns] = useState([]);
  const [problem, setProblem] = useState(null);
  const own = decodeURIComponent(new URL(document.baseURI).pathname.split("/").filter(Boolean).at(-1) ?? "");
  useEffect(() => {
    fetch(new URL("../../runs", document.baseURI), { cache: "no-store" })
      .then((response) => response.json())
      .then((answer) => setRuns(answer.runs.filter((run) => run.id !== own)))
      .catch(() => setProblem({ error: "The history does not answer.", hint: "It may have ended." }));
  }, []);
  return html`<${Notice} problem=${problem} />
    <label class="compare-choice">This run, and
      <select class="field" value=${other ?? ""} onChange=${(event) => go({ with: event.target.value || null })}>
        <option value="">another one</option>
        ${runs.map((run) => html`<option key=${run.id} value=${run.id} selected=${run.id === other}>${run.name || run.file}, ${timeOfDay(run.began)}, ${run.file}</option>`)}
      </select></label>`;
}

function Pair({ other }) {
  const [turn, setTurn] = useState(0);
  const { answer, problem } = useAsked("/compare", { with: other }, { every: 0, key: turn });
  const waits = problem?.status === 503; // a long log is being read
  useEffect(() => {
    if (!waits) return undefined;
    const timer = setTimeout(() => setTurn((number) => number + 1), 1000);
    return () => clearTimeout(timer);
  }, [problem]);
  if (!answer) return problem ? html`<${Notice} problem=${problem} kind=${waits ? "" : "bad"} />` : html`<${Empty}>Reading both runs.</>`;
  const [first, second] = answer.runs;
  return html`<div class="compare-sides">
      <${Side} run=${first} title="This run" /><${Side} run=${second} title="The other run" second=${true} />
    </div>
    <section class="card"><h2>Latency of windows</h2><${Chart} runs=${answer.runs} /></section>
    <${Figures} label="Figures" rows=${answer.figures} />
    <${Operators} rows=${answer.operators} />
    <${Lines} rows=${answer.lines} />
    <${Stacks} other=${other} />
    <${Values} title="Configuration that differs" rows=${answer.configuration} none="The values that both runs keep are the same." />
    <${Values} title="Plan that differs" rows=${answer.plan} none="Operators and streams are the same." />
    <${Values} title="Versions that differ" rows=${answer.versions} none="The versions are the same." />`;
}

function Side({ run, title, second }) {
  return html`<section class=${`card compare-side ${second ? "second" : ""}`}>
    <h2>${title}: ${run.name} <${State} state=${run.state} /></h2>
    <p class="muted">began ${timeOfDay(run.began)}</p>
    <p>${run.sentence}</p>
    ${run.path.length > 0 && html`<p class="muted">Critical path: <span class="accent">${run.path.join(" → ")}</span></p>`}
  </section>`;
}

// Both runs over the time since their first window that is kept.
function Chart({ runs }) {
  const windows = runs.map((run) => run.windows);
  const seconds = Math.max(...windows.flat().map(([at]) => at), 0) || 1;
  const most = Math.max(...windows.flat().map(([, ms]) => ms), 0) || 1;
  const line = (points) => points.map(([at, ms], index) => `${index ? "L" : "M"}${((at / seconds) * 100).toFixed(3)} ${(159 - (ms / most) * 156).toFixed(2)}`).join("");
  return html`<div class="compare-axis"><span>${milliseconds(most)}</span></div>
    <div class="compare-marked"><svg class="compare-chart" viewBox="0 0 100 160" preserveAspectRatio="none" role="img" aria-label="Latency of the windows of both runs">
      ${windows.map((points, index) => html`<path key=${index} class=${index ? "second" : ""} d=${line(points)} />`)}
    </svg>
    ${runs.flatMap((run, index) => run.marks.filter(([at]) => at <= seconds).map(([at, kind, level, text]) => html`<span key=${`${index} ${at} ${text}`} class=${`spark-mark ${index ? "compare-mark-second" : ""}`} title=${text} style=${{ left: `${(at / seconds) * 100}%`, color: `var(${colourOf({ level })})` }}>
      <span class="hidden">${index ? "the other run" : "this run"}, ${KINDS[kind]?.word ?? "event"}: ${text}</span><span aria-hidden="true">${KINDS[kind]?.glyph ?? "•"}</span></span>`))}</div>
    <div class="compare-axis"><span>their first window</span><span>${duration(seconds)} later</span></div>
    <div class="legend"><span style=${{ "--swatch": "var(--compute)" }}>this run</span><span style=${{ "--swatch": "var(--transfer)" }}>the other run</span></div>`;
}

function amount(value, unit) {
  if (value == null) return "-";
  return unit === "ms" ? milliseconds(value) : unit === "/s" ? `${rate(value)}/s` : unit === "share" ? percent(value) : count(value);
}

// A difference in words: of shares in points, else by how much, and in percent.
function difference(row) {
  if (row.difference == null) return "-";
  if (row.difference === 0 || (row.ratio != null && Math.abs(row.ratio - 1) < SAME)) return `±${amount(0, row.unit)}`;
  const sign = row.difference > 0 ? "+" : "−";
  if (row.unit === "share") return `${sign}${Math.abs(row.difference * 100).toFixed(0)} points`;
  const by = `${sign}${amount(Math.abs(row.difference), row.unit)}`;
  return row.ratio == null ? by : `${by} (${sign}${Math.abs((row.ratio - 1) * 100).toFixed(0)} %)`;
}

function colour(row) {
  if (row.lessIsBetter == null || !row.difference || (row.ratio != null && Math.abs(row.ratio - 1) < LIKE)) return "muted";
  return row.difference < 0 === row.lessIsBetter ? "better" : "worse";
}

function Figures({ rows, label }) {
  return html`<div class="table-wrap" tabindex="0" role="region" aria-label=${label}><table class="table" aria-label=${label}>
    <thead><tr><th scope="col">Figure</th><th scope="col" class="number">This run</th><th scope="col" class="number">The other run</th><th scope="col" class="number">Difference</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.name}><td>${row.name}</td>
      <td class="number">${amount(row.values[0], row.unit)}</td><td class="number">${amount(row.values[1], row.unit)}</td>
      <td class=${`number ${colour(row)}`}>${difference(row)}</td></tr>`)}</tbody>
  </table></div>`;
}

function Operators({ rows }) {
  const of = (row, name) => row.figures.find((one) => one.name === name);
  const figure = (name, title) => ({
    name, title, number: true, value: (row) => of(row, name).difference,
    cell: (row) => html`${amount(of(row, name).values[0], of(row, name).unit)} → ${amount(of(row, name).values[1], of(row, name).unit)} <span class=${colour(of(row, name))}>${difference(of(row, name))}</span>`,
  });
  const columns = [
    { name: "operator", title: "Operator", value: (row) => row.operator },
    { name: "partitions", title: "Partitions", number: true, value: (row) => row.partitions[0], cell: (row) => (row.partitions[0] === row.partitions[1] ? count(row.partitions[0]) : row.partitions.map((one) => (one == null ? "not there" : count(one))).join(" → ")) },
    figure("latency, median", "Median latency"),
    figure("latency, p99", "p99"),
    figure("compute a window", "Compute a window"),
    figure("windows on the critical path", "On the critical path"),
  ];
  return html`<${Table} label="Operators" columns=${columns} rows=${rows} id=${(row) => row.operator} sort=${{ by: "latency, p99", descending: true }} onOpen=${(row) => go({ view: "graph", operator: row.operator })} />`;
}

// Values of both runs that are not the same.
function Values({ rows, title, none }) {
  return html`<section class="card"><h2>${title}</h2>${rows.length
    ? html`<div class="table-wrap" tabindex="0" role="region" aria-label=${title}><table class="table" aria-label=${title}>
      <thead><tr><th scope="col">Name</th><th scope="col">This run</th><th scope="col">The other run</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${`${row.kind} ${row.name}`}><td>${row.kind ? `${row.kind} ` : ""}${row.name}</td>
        <td>${row.values[0] ?? "-"}</td><td>${row.values[1] ?? "-"}</td></tr>`)}</tbody></table></div>`
    : html`<p class="muted">${none}</p>`}</section>`;
}

// The lines of code with the most time; an event log keeps none.
function Lines({ rows }) {
  if (!rows.length) return null;
  const columns = [
    { name: "operator", title: "Operator", value: (row) => row.operator },
    { name: "text", title: "Line", value: (row) => row.text, cell: (row) => html`<code>${row.text}</code> <span class="muted">${row.function}</span>` },
    { name: "first", title: "This run", number: true, value: (row) => row.shares[0], cell: (row) => percent(row.shares[0]) },
    { name: "second", title: "The other run", number: true, value: (row) => row.shares[1], cell: (row) => percent(row.shares[1]) },
    { name: "difference", title: "Points", number: true, value: (row) => row.shares[1] - row.shares[0], cell: (row) => `${row.shares[1] < row.shares[0] ? "−" : "+"}${Math.abs((row.shares[1] - row.shares[0]) * 100).toFixed(0)}` },
  ];
  return html`<section class="card"><h2>Where the Python time goes</h2>
    <${Table} label="Lines of code" columns=${columns} rows=${rows} id=${(row) => `${row.operator} ${row.function} ${row.text}`} sort=${{ by: "first", descending: true }} /></section>`;
}

// Whole stacks of an operator in both runs; both must have kept some, as bundles do.
function Stacks({ other }) {
  const own = useAsked("/stacks", {}, { every: 0 });
  const theirs = useStacks(other);
  const { params } = useRoute();
  const of = (answer, name) => answer?.operators?.find((one) => one.operator === name);
  const shared = (own.answer?.operators ?? []).filter((one) => of(theirs, one.operator)).map((one) => one.operator);
  const name = shared.includes(params.stacks) ? params.stacks : shared[0];
  const trees = useMemo(() => name && [own.answer, theirs].map((answer) => treeOf(of(answer, name))), [own.answer, theirs, name]);
  const shares = useMemo(() => trees?.map(sharesOf), [trees]);
  if (!shared.length) return null;
  const points = (node, index) => 100 * (sharesOf.of(shares[index], node) - sharesOf.of(shares[1 - index], node));
  const kind = (index) => (node) => (!node.caller ? node.kind : points(node, index) >= POINTS ? "more" : points(node, index) <= -POINTS ? "less" : node.kind);
  const extra = (index) => (node) => {
    const more = node.caller ? Math.round(points(node, index)) : 0;
    return more ? `, ${Math.abs(more)} points ${more > 0 ? "more" : "less"} than in the other run` : "";
  };
  return html`<section class="card"><h2>Stacks of the last minute of both</h2>
    <label class="compare-choice">Operator
      <select class="field" value=${name} onChange=${(event) => go({ stacks: event.target.value, replace: true })}>
        ${shared.map((one) => html`<option key=${one} value=${one} selected=${one === name}>${one}</option>`)}
      </select></label>
    <div class="compare-sides">
      ${["This run", "The other run"].map((title, index) => html`<div key=${title}><h3>${title}</h3>
        <${Frames} key=${name} tree=${trees[index]} label=${`Stacks of ${name}, ${title.toLowerCase()}`} kindOf=${kind(index)} extra=${extra(index)} /></div>`)}
    </div>
    <p class="muted">Marked are functions with ${POINTS} points more, or less, of the operator's time than in the other run.</p></section>`;
}

const POINTS = 5;

// The stacks of another run; null while they are asked for, or where there are none.
function useStacks(run) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    let over = false;
    setAnswer(null);
    fetch(new URL(`../${encodeURIComponent(run)}/ws/v2/stram/stacks`, document.baseURI), { cache: "no-store" })
      .then((response) => (response.ok ? response.json() : null))
      .then((found) => over || setAnswer(found), () => {}); // the notice above says that the history is gone
    return () => {
      over = true;
    };
  }, [run]);
  return answer;
}

// The share of each function, by its path from the operator's turn: lines may have moved.
function sharesOf(tree) {
  const found = new Map();
  for (const node of all(tree)) found.set(pathOf(node), (found.get(pathOf(node)) ?? 0) + node.width);
  return found;
}
sharesOf.of = (shares, node) => shares.get(pathOf(node)) ?? 0;

function pathOf(node) {
  return node.caller ? `${pathOf(node.caller)}\n${node.label}` : "";
}

export default { name: "compare", title: "Compare", View };
