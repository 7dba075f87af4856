// What happened, as marks on charts: changes, decisions, failures, promises that were broken.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { get } from "../api.js";
import { timeOfDay } from "../format.js";
import { href } from "../router.js";
import { store, useStore } from "../store.js";

// A glyph for each kind, so that colour is never the only difference.
export const KINDS = {
  failure: { glyph: "✕", word: "failure" },
  end: { glyph: "■", word: "end of the run" },
  promise: { glyph: "⚑", word: "promise" },
  slot: { glyph: "●", word: "slot" },
  store: { glyph: "▼", word: "store" },
  source: { glyph: "◀", word: "source" },
  output: { glyph: "▶", word: "output" },
  change: { glyph: "▲", word: "change" },
  decision: { glyph: "◆", word: "decision" },
};
const EVERY_MS = 5_000;
const LEAST_MS = 1_000;

let marks = [];
let readers = 0;
let timer = null;
let asked = 0;
let known = "";
const listeners = new Set();

// What would have another value if there were another mark: cheap to compare with each event of the stream.
function signature({ overview, connection }) {
  if (!overview) return "";
  const { info, change, promises, progress } = overview;
  const stats = info?.stats ?? {};
  return [
    connection.live,
    info?.state,
    change && [change.id, change.state],
    promises?.map((one) => one.kept),
    stats.windowsRetried,
    stats.slotsLost,
    stats.slotsSilent,
    stats.slotsRestarted,
    progress?.application?.stuckOutputs?.length,
    progress?.application?.stuckStores?.length,
    progress?.application?.unreachable?.length,
  ].join();
}

async function read() {
  clearTimeout(timer);
  const { begun, live, ended } = store.state.connection;
  if (begun && !live && !ended) return; // when the line is back, the signature is another one
  asked = Date.now();
  try {
    const [last] = (await get("/marks", { limit: 1 })).marks;
    const before = marks.at(-1);
    if (last && (!before || before.at !== last.at || before.text !== last.text)) {
      marks = (await get("/marks")).marks;
      for (const listener of listeners) listener(marks);
    }
  } catch {
    // the frame says that the line is cut
  }
  clearTimeout(timer);
  if (readers && !store.state.connection.ended) timer = setTimeout(read, EVERY_MS);
}

function look() {
  const now = signature(store.state);
  if (now === known) return;
  known = now;
  clearTimeout(timer);
  timer = setTimeout(read, Math.max(0, asked + LEAST_MS - Date.now()));
}

// The marks of the run, oldest first: {at, kind, level, text, windowId, operator, number, region}.
export function useMarks() {
  const [shown, show] = useState(marks);
  const now = useStore(signature);
  useEffect(() => {
    listeners.add(show);
    readers += 1;
    show(marks);
    if (readers === 1) read();
    return () => {
      listeners.delete(show);
      readers -= 1;
      if (!readers) clearTimeout(timer);
    };
  }, []);
  useEffect(look, [now]);
  return shown;
}

// Draws marks on a canvas: a line for each, and its glyph at the top. `xOf(mark)`: where, null: not in sight.
export function drawMarks(context, marks, xOf, top, bottom, style) {
  context.save();
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.setLineDash([2, 3]);
  for (const mark of marks) {
    const x = xOf(mark);
    if (x == null) continue;
    const colour = style.getPropertyValue(colourOf(mark)).trim();
    context.strokeStyle = colour;
    context.fillStyle = colour;
    context.globalAlpha = 0.7;
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, top + 12);
    context.lineTo(Math.round(x) + 0.5, bottom);
    context.stroke();
    context.globalAlpha = 1;
    context.fillText(KINDS[mark.kind]?.glyph ?? "•", x, top + 6);
  }
  context.restore();
}

export function colourOf(mark) {
  return mark.level === "bad" ? "--bad" : mark.level === "good" ? "--ok" : "--muted";
}

// A text whose words in backticks are code.
export function Words({ text }) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

// Marks as a list, the newest first, each with a way to its window.
export function MarkList({ marks, label = "What happened", limit = 50, view = "time" }) {
  const shown = useMemo(() => marks.slice(-limit).reverse(), [marks, limit]);
  if (!shown.length) return null;
  return html`<ol class="marks" aria-label=${label}>
    ${shown.map((mark) => html`<li key=${`${mark.at} ${mark.kind} ${mark.number ?? mark.text}`} class="mark">
      <span class="mark-glyph" style=${{ color: `var(${colourOf(mark)})` }} title=${KINDS[mark.kind]?.word} aria-hidden="true">${KINDS[mark.kind]?.glyph ?? "•"}</span>
      <span class="mark-time number">${timeOfDay(mark.at)}</span>
      <span class="mark-text"><span class="hidden">${KINDS[mark.kind]?.word}: </span><${Words} text=${mark.text} />
        ${mark.windowId != null && html` <a href=${href({ view, window: mark.windowId, region: mark.region ?? null })}>window ${mark.windowId}</a>`}
        ${mark.region && html`<span class="muted"> in ${mark.region}</span>`}
      </span>
    </li>`)}
  </ol>`;
}
