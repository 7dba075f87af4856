// Time: the last windows as a strip, one of them in full, and what happened around it.
import { html, useEffect, useMemo, useRef } from "../vendor/preact.js";
import { count, milliseconds, timeOfDay } from "../format.js";
import { go, href, useRoute } from "../router.js";
import { useStore } from "../store.js";
import { MarkList, Words, useMarks } from "../parts/marks.js";
import { Empty, Notice } from "../parts/notice.js";
import { FEWEST, indexOf, quantile, turn } from "../time/figures.js";
import { Gantt, Steps } from "../time/gantt.js";
import { Hours } from "../time/hours.js";
import { Strip } from "../time/strip.js";

const DRAG_MS = 120;
const NEAR = 12; // windows on both sides in which something counts as near

function View() {
  const windows = useStore((state) => state.windows);
  const shown = useStore((state) => state.shown);
  const marks = useMarks();
  const { params } = useRoute();
  const chosen = useMemo(() => placeOf(windows, params), [windows, params.window, params.region]);
  const choose = useChoose(windows);
  if (!windows.length) return html`<${BeforeTheFirst} marks=${marks} />`;
  return html`<div class="time">
    <section class="card time-strip">
      ${regionsOf(windows).map((region, number) => html`<${Past} key=${region} ...${{ region, windows, marks, choose }} chosen=${windows[chosen] ?? null}>
        ${number === 0 && html`<button type="button" class="button" disabled=${!params.window} onClick=${() => choose(null, false)}>Live</button>`}
      </>`)}
      <${Turn} windows=${windows} marks=${marks} />
    </section>
    <${Window} shown=${shown} windows=${windows} marks=${marks} params=${params} />
    <${Hours} marks=${marks} chosen=${params.window ? shown?.window?.committedAt : null} />
    <section class="card">
      <h2>What happened</h2>
      ${marks.length
        ? html`<${MarkList} marks=${marks} />`
        : html`<p class="muted">Nothing since the start: no failure, no change, no decision, no broken promise.</p>`}
    </section>
  </div>`;
}

// Without a window: what has happened all the same, such as attempts at the first one that failed.
function BeforeTheFirst({ marks }) {
  const ended = useStore((state) => state.connection.ended);
  return html`<${Empty}>${ended ? "The application ended before its first window." : "Waiting for the first window. It takes as long as Spark takes to start, and one window."}</>
    ${marks.length > 0 && html`<section class="card"><h2>What happened</h2><${MarkList} marks=${marks} /></section>`}`;
}

// The regions of windows; of an application without regions one, which has no name.
function regionsOf(windows) {
  return [...new Set(windows.map((one) => one.region))].sort();
}

// The strip of a region. `chosen`: the window that the address names, of any region.
function Past({ region, windows, marks, choose, chosen, children }) {
  const own = useMemo(() => (region == null ? windows : windows.filter((one) => one.region === region)), [windows, region]);
  const near = useMemo(() => marks.filter((mark) => region == null || mark.region == null || mark.region === region), [marks, region]);
  const pick = (index, moves) => choose(index == null ? null : windows.indexOf(own[index]), moves);
  return html`
    <div class="time-head">
      <h2>The last ${count(own.length)} windows${region == null ? "" : ` of ${region}`}</h2>
      <${Sum} windows=${own} />
      <span class="space"></span>
      ${children}
    </div>
    <${Strip} windows=${own} marks=${near} chosen=${own.indexOf(chosen)} onChoose=${pick} label=${region == null ? "Window" : `Window of ${region}`} />`;
}

// The index of the window that the address names; -1 if it names none, or it is not there any more.
function placeOf(windows, { window, region }) {
  if (!window) return -1;
  return windows.findIndex((one) => String(one.windowId) === window && (region == null || one.region === region));
}

// Choosing a window writes it into the address: at once, or while the pointer is dragged some times a second.
function useChoose(windows) {
  const state = useRef({ timer: null, next: null });
  state.current.windows = windows;
  useEffect(() => () => clearTimeout(state.current.timer), []);
  return useMemo(() => {
    function write(replace) {
      const { next } = state.current;
      state.current.timer = null;
      go({ window: next ? next.windowId : null, region: next?.region ?? null, replace });
    }
    return (index, moves) => {
      const now = state.current;
      now.next = index == null ? null : now.windows[index];
      clearTimeout(now.timer);
      if (moves && now.last && Date.now() - now.last < DRAG_MS) {
        now.timer = setTimeout(() => write(true), DRAG_MS);
        return;
      }
      now.last = Date.now();
      write(moves);
    };
  }, []);
}

function Sum({ windows }) {
  const latencies = windows.map((one) => one.latencyMs);
  const again = windows.filter((one) => one.attempts > 1).length;
  return html`<p class="muted time-sum">
    <span>last <b class="number">${milliseconds(latencies.at(-1))}</b></span>
    <span>p50 <b class="number">${milliseconds(quantile(latencies, 0.5))}</b></span>
    <span>p99 <b class="number">${milliseconds(quantile(latencies, 0.99))}</b></span>
    ${again > 0 && html`<span class="bad">${count(again)} retried</span>`}
  </p>`;
}

// The last turn of each region, the one that adds or saves most first: windows of two regions are not compared.
function lastTurns(windows) {
  const turns = [...new Set(windows.map((one) => one.region))].map((region) => {
    const own = windows.filter((one) => one.region === region);
    const found = turn(own);
    return found && { ...found, own };
  });
  const by = (one) => Math.abs(one.since - one.before);
  return turns.filter(Boolean).sort((one, other) => by(other) - by(one));
}

// Since when it is as slow as it is, and what happened then.
function Turn({ windows, marks }) {
  const turns = useMemo(() => lastTurns(windows), [windows.at(-1)]);
  if (!turns.length && windows.length < 2 * FEWEST) return html`<p class="time-turn muted">Too few windows to say since when they take as long as they do.</p>`;
  if (!turns.length) return html`<p class="time-turn muted">Latency is steady over these windows.</p>`;
  return turns.map((found) => html`<${OneTurn} key=${found.window.region ?? ""} found=${found} marks=${marks} />`);
}

function OneTurn({ found, marks }) {
  const near = marks.filter((mark) => (mark.region == null || mark.region === found.window.region) && Math.abs(indexOf(found.own, mark) - found.index) <= 3 && mark.level !== "good").slice(-3);
  const slower = found.since > found.before;
  return html`<div class="time-turn">
    <p>
      <b class=${slower ? "behind" : "ok"}>${slower ? "Slower" : "Faster"} since ${timeOfDay(found.window.triggeredAt)}</b>,
      ${" "}<a href=${href({ window: found.window.windowId, region: found.window.region ?? null })}>window ${found.window.windowId}</a>${found.window.region ? ` of ${found.window.region}` : ""}:
      ${" "}median ${milliseconds(found.before)} before, ${milliseconds(found.since)} from then on.
    </p>
    ${near.length > 0 && html`<p class="muted">Then: <${Words} text=${near.map((mark) => mark.text).join("; ")} /></p>`}
  </div>`;
}

function Window({ shown, windows, marks, params }) {
  const window = shown?.window;
  const path = shown?.criticalPath;
  if (shown?.problem) {
    return html`<section class="card"><h2>Window ${params.window}</h2>
      <${Notice} problem=${shown.problem} kind="behind"><p>Only the last ${count(1000)} windows are kept. <a href=${href({ window: null, region: null })}>Show the newest</a></p></>
    </section>`;
  }
  if (!window) return html`<section class="card"><${Empty}>The window is not there yet.</></section>`;
  if (!path?.blame?.length) return html`<section class="card"><${Empty}>Nothing is known of who waited for whom in window ${window.windowId}.</></section>`;
  const across = !params.window && path.windows; // through all regions on the way
  const named = `${window.windowId}${window.region ? ` of ${window.region}` : ""}`;
  const of = params.window ? `Window ${named}` : across ? "The newest results" : `The newest window, ${named}`;
  return html`<section class="time-window">
    <div class="card time-chain">
      <h2>${of}: who waited for whom</h2>
      ${across ? html`<p class="muted time-facts">
        <span>from the first trigger to the last commit <b class="number">${milliseconds(path.windowLatencyMs)}</b></span>
        <span>critical path <b class="number accent">${milliseconds(path.latencyMs)}</b></span>
        ${Object.entries(path.windows).map(([region, id]) => html`<span key=${region}><a href=${href({ window: id, region })}>window ${id}</a> of ${region}</span>`)}
      </p>` : html`<p class="muted time-facts">
        <span>committed ${timeOfDay(window.committedAt)}</span>
        <span>latency <b class="number">${milliseconds(window.latencyMs)}</b></span>
        <span>critical path <b class="number accent">${milliseconds(window.criticalPathMs)}</b></span>
        ${window.lateMs > 1 && html`<span>began <b class="number">${milliseconds(window.lateMs)}</b> late</span>`}
        <span>${count(window.tuplesIn)} in, ${count(window.tuplesOut)} out</span>
        <span>plan ${window.planVersion}</span>
        ${window.attempts > 1 && html`<span class="bad">${window.attempts} attempts</span>`}
      </p>`}
      <${Gantt} blame=${path.blame} />
      <div class="legend">
        ${[["compute", "compute"], ["transfer", "transfer, reading, state"], ["wait", "waiting, launch, commit"]].map(
          ([name, text]) => html`<span style=${{ "--swatch": `var(--${name})` }}>${text}</span>`,
        )}
      </div>
      <details class="time-steps"><summary>As a table</summary><${Steps} blame=${path.blame} /></details>
    </div>
    <div class="time-side">
      <${Then} window=${window} windows=${windows} marks=${marks} />
    </div>
  </section>`;
}

// What happened around the window, and why it was made again.
function Then({ window, windows, marks }) {
  const at = windows.findIndex((one) => one.windowId === window.windowId && one.region === window.region);
  const near = marks.filter((mark) => {
    if (mark.windowId === window.windowId) return true;
    const index = indexOf(windows, mark);
    return at >= 0 && index >= 0 && Math.abs(index - at) <= NEAR;
  });
  const failed = near.filter((mark) => mark.kind === "failure" && mark.windowId === window.windowId);
  return html`<div class="card">
    <h2>What happened then</h2>
    ${window.attempts > 1 && !failed.length && html`<p class="bad">It took ${window.attempts} attempts; the reason is no longer kept.</p>`}
    ${near.length ? html`<${MarkList} marks=${near} label="What happened then" limit=${8} />` : html`<p class="muted">Nothing within ${NEAR} windows of it.</p>`}
  </div>`;
}

export default { name: "time", title: "Time", View };
