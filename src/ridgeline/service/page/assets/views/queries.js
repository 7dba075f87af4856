// Queries: SQL over the streams of the running application, with results as they come.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { bytes, count, cut, duration, plural, visible } from "../format.js";
import { post } from "../api.js";
import { go, useRoute } from "../router.js";
import { store, useStore } from "../store.js";
import { quoted as word } from "../operator/change.js";
import { useAsked } from "../parts/asked.js";
import { Copy } from "../parts/copy.js";
import { useMarks } from "../parts/marks.js";
import { Needs, useNeeds } from "../parts/needs.js";
import { Empty, Notice } from "../parts/notice.js";
import { Spark } from "../parts/spark.js";
import { Table } from "../parts/table.js";

const SAVED = "ridgeline-queries";
const KEPT = 120; // results, for the chart
const MOST_ROWS = 500;

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(SAVED) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.sql === "string") : [];
  } catch {
    return [];
  }
}

function write(saved) {
  try {
    localStorage.setItem(SAVED, JSON.stringify(saved.slice(0, 50)));
  } catch {
    // the browser keeps nothing
  }
}

function View() {
  const streams = useStore((state) => state.plan?.streams);
  const writes = useStore((state) => state.rights?.writes);
  const needs = useNeeds("operate", "Running a query");
  const { params } = useRoute();
  const running = useAsked("/queries", {}, { every: 3000 });
  const [saved, setSaved] = useState(read);
  const [sql, setSql] = useState(params.sql ?? "");
  const [every, setEvery] = useState("");
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const name = params.query;
  const names = useMemo(() => (streams ?? []).map((one) => one.name), [streams]);

  async function run(event) {
    event?.preventDefault();
    if (needs) return;
    setBusy(true);
    setProblem(null);
    try {
      const query = await post("/queries", { sql, every: every || null, rows: MOST_ROWS, who: "page" });
      go({ query: query.name, sql, replace: true });
      running.again();
    } catch (error) {
      setProblem(error);
    }
    setBusy(false);
  }

  async function stop(which) {
    try {
      await post(`/queries/${encodeURIComponent(which)}/stop`);
    } catch (error) {
      setProblem(error);
    }
    if (which === name) go({ query: null, replace: true });
    running.again();
  }

  function keep() {
    const next = [{ sql, every }, ...saved.filter((one) => one.sql !== sql)];
    setSaved(next);
    write(next);
  }

  function drop(which) {
    const next = saved.filter((one) => one.sql !== which);
    setSaved(next);
    write(next);
  }

  function press(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && sql && writes) run(event);
  }

  const queries = running.answer?.queries ?? [];
  return html`<div class="queries">
    <form class="card queries-form" onSubmit=${run}>
      <label for="queries-sql"><b>SQL</b> <span class="muted">over the tuples of one window, or of a longer period</span></label>
      <textarea id="queries-sql" class="field mono" rows="4" spellcheck=${false} value=${sql} onInput=${(event) => setSql(event.target.value)} onKeyDown=${press} placeholder=${names.length ? `select count(*) as n from ${quoted(names[0])}` : ""}></textarea>
      <div class="queries-line">
        <label>Period <input class="field queries-every" value=${every} placeholder="a window" onInput=${(event) => setEvery(event.target.value)} aria-label="Period, such as 10s" /></label>
        <button class="button first" type="submit" disabled=${!sql.trim() || busy} aria-disabled=${needs ? "true" : undefined} aria-describedby=${needs ? "queries-needs" : undefined}>${busy ? "Inserting" : "Run"}</button>
        <button class="button" type="button" disabled=${!sql.trim()} onClick=${keep}>Save</button>
        <${Needs} id="queries-needs" text=${needs} />
      </div>
      <${Notice} problem=${problem} />
      <p class="muted queries-streams">Streams: ${names.map((one) => html`<button type="button" class="button quiet" key=${one} onClick=${() => setSql((text) => (text ? `${text}${quoted(one)}` : `select * from ${quoted(one)} limit 20`))}>${one}</button>`)}</p>
    </form>
    <div class="queries-side">
      ${queries.length > 0 && html`<section class="card"><h2>Running</h2>
        <ul>${queries.map((one) => html`<li key=${one.name} class="queries-one">
          <button type="button" class="button quiet queries-text" aria-current=${one.name === name ? "true" : undefined} onClick=${() => { setSql(one.sql); go({ query: one.name, sql: one.sql }); }}><code>${one.sql}</code></button>
          <span class="muted">${plural(one.results, "result")}${one.seconds == null ? "" : `, ${duration(one.seconds)}`}</span>
          ${writes && html`<button type="button" class="button" onClick=${() => stop(one.name)}>Stop</button>`}
        </li>`)}</ul>
      </section>`}
      <section class="card"><h2>Saved in this browser</h2>
        ${saved.length ? html`<ul>${saved.map((one) => html`<li key=${one.sql} class="queries-one">
          <button type="button" class="button quiet queries-text" onClick=${() => { setSql(one.sql); setEvery(one.every ?? ""); }}><code>${one.sql}</code></button>
          <button type="button" class="button quiet" aria-label=${`Forget ${one.sql}`} onClick=${() => drop(one.sql)}>✕</button>
        </li>`)}</ul>` : html`<p class="muted">None.</p>`}
      </section>
    </div>
    ${name
      ? html`<${Results} key=${name} name=${name} query=${queries.find((one) => one.name === name)} onStop=${writes ? () => stop(name) : null} />`
      : html`<p class="muted queries-hint">A query reads what its streams carry while it runs. It is part of the plan until it is stopped, or nobody reads it for 30 seconds.</p>`}
  </div>`;
}

function quoted(name) {
  return /^[A-Za-z_]\w*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

// Reads the results of a query one after the other, as long as it is shown.
function useResults(name) {
  const [state, setState] = useState({ results: [], ended: false, error: "", problem: null });
  const held = useRef();
  useEffect(() => {
    let over = false;
    held.current = [];
    async function turn() {
      let after = 0;
      while (!over) {
        try {
          const answer = await post(`/queries/${encodeURIComponent(name)}/results`, { after, wait: 5 });
          if (over) return;
          after = answer.results.at(-1)?.number ?? after;
          if (answer.results.length) held.current = [...held.current, ...answer.results].slice(-KEPT);
          setState({ results: held.current, ended: answer.ended, error: answer.error, problem: null });
          if (answer.ended) return;
          if (document.hidden || answer.results.length) await new Promise((resolve) => setTimeout(resolve, 250));
        } catch (problem) {
          if (over) return;
          setState((before) => ({ ...before, problem }));
          if (problem.status === 404) return;
          await new Promise((resolve) => setTimeout(resolve, 2000));
        }
      }
    }
    turn();
    return () => {
      over = true;
    };
  }, [name]);
  return state;
}

function Results({ name, query, onStop }) {
  const { results, ended, error, problem } = useResults(name);
  const { params } = useRoute();
  const last = results.at(-1);
  const chart = params.as === "chart";
  return html`<section class="queries-results">
    <div class="queries-line">
      <h2>${name}</h2>
      ${last && html`<span class="muted">window ${last.firstWindow === last.window ? count(last.window) : `${count(last.firstWindow)} to ${count(last.window)}`}, ${plural(last.rows.length, "row")}${last.more ? " and more" : ""} of ${plural(last.tuples, "tuple")}, ${duration(last.seconds)}, ${bytes(last.bytes)}</span>`}
      <span class="space"></span>
      <div role="group" aria-label="Show as">
        <button type="button" class="button" aria-pressed=${!chart} onClick=${() => go({ as: null, replace: true })}>Table</button>
        <button type="button" class="button" aria-pressed=${chart} onClick=${() => go({ as: "chart", replace: true })}>Chart</button>
      </div>
      ${onStop && !ended && html`<button type="button" class="button" onClick=${onStop}>Stop</button>`}
    </div>
    <${Notice} problem=${problem} />
    ${ended && html`<${Notice} kind=${error ? "bad" : "behind"}><p>The query has ended${error ? `: ${error}` : ""}.</p></>`}
    ${!last ? !ended && !problem && html`<${Empty}>Waiting for the first result: it comes at the end of the period.</>` : chart ? html`<${Chart} results=${results} />` : html`<${Rows} result=${last} />`}
    ${query && html`<${Same} query=${query} />`}
  </section>`;
}

// The command that runs the same query.
function Same({ query }) {
  const application = useStore((state) => state.plan?.application ?? "APP");
  const seconds = useStore((state) => state.overview?.info?.windowSeconds ?? 0);
  const period = query.everyWindows > 1 ? ` --every ${Math.round(query.everyWindows * seconds * 1000)}ms` : "";
  return html`<${Copy} text=${`ridgeline query ${word(application)} ${word(query.sql)}${period}`} label="The same as a command" />`;
}

function Rows({ result }) {
  const columns = useMemo(
    () => result.columns.map((name) => ({
      name,
      title: name,
      number: result.rows.some((row) => numberOf(row[name]) != null),
      value: (row) => numberOf(row[name]) ?? row[name],
      cell: (row) => shown(row[name]),
    })),
    [result.columns.join("\n"), result.number],
  );
  if (!result.rows.length) return html`<${Empty}>No rows in this period.</>`;
  const rows = result.rows.map((row, index) => ({ ...row, [ROW]: index }));
  return html`<${Table} label="Result" columns=${columns} rows=${rows} id=${(row) => row[ROW]} />`;
}

// The number that a value is; decimals and large whole numbers come as texts. Null if it is none.
function numberOf(value) {
  if (typeof value === "number") return value;
  return typeof value === "string" && /^-?\d{1,30}(\.\d+)?$/.test(value) ? Number(value) : null;
}

const ROW = Symbol("row");
const numbers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 4 });

function shown(value) {
  if (value == null) return html`<span class="muted">null</span>`;
  if (typeof value === "number") return Math.abs(value) >= 1e15 || (value && Math.abs(value) < 1e-4) ? value.toPrecision(5) : numbers.format(value);
  return typeof value === "object" ? JSON.stringify(value) : visible(String(value));
}

// Numbers over the last periods: one line for each number of the first rows, by the first column that is no number.
function Chart({ results }) {
  const lines = useMemo(() => linesOf(results), [results]);
  const all = useMarks();
  const marks = all.map((mark) => ({ ...mark, index: mark.windowId == null ? -1 : results.findIndex((one) => one.firstWindow <= mark.windowId && mark.windowId <= one.window) }));
  if (results.length < 2) return html`<${Empty}>A chart needs two results.</>`;
  if (!lines.length) return html`<${Empty}>No column has numbers.</>`;
  return html`<div class="queries-charts">
    ${lines.map((line) => html`<figure class="card" key=${line.name}>
      <figcaption><span title=${line.name}>${cut(visible(line.name))}</span> <b class="number">${shown(line.values.at(-1))}</b></figcaption>
      <${Spark} values=${line.values} label=${`${line.name} over the last ${results.length} periods`} height=${48} marks=${marks} />
    </figure>`)}
  </div>`;
}

const MOST_LINES = 12;

function linesOf(results) {
  const last = results.at(-1);
  const numeric = last.columns.filter((name) => last.rows.some((row) => numberOf(row[name]) != null));
  const grouped = last.rows.length > 1 && numeric.length > 1 && numeric[0] === last.columns[0];
  const label = last.columns.find((name) => !numeric.includes(name)) ?? (grouped ? numeric.shift() : undefined);
  const lines = [];
  for (const row of last.rows) {
    for (const name of numeric) {
      if (lines.length >= MOST_LINES) return lines;
      const key = label === undefined ? null : row[label];
      const values = results.map((result) => {
        const same = label === undefined ? result.rows[last.rows.indexOf(row)] : result.rows.find((one) => one[label] === key);
        return numberOf(same?.[name]);
      });
      lines.push({ name: label === undefined ? (last.rows.length > 1 ? `${name}, row ${last.rows.indexOf(row) + 1}` : name) : `${key}: ${name}`, values });
    }
  }
  return lines;
}

export default { name: "queries", title: "Queries", View };
