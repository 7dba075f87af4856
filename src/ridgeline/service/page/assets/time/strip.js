// The strip of the last windows: a bar each, coloured by latency. One is chosen by click, drag or keyboard.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { count, milliseconds, timeOfDay } from "../format.js";
import { drawMarks } from "../parts/marks.js";
import { indexOf, quantile } from "./figures.js";

const HEIGHT = 108;
const TOP = 16; // for the glyphs of marks
const FOOT = 18; // for the times
const MOST = 1000;
export const STEPS = 6;

// The step of the colour scale that a latency is in: the scale is of its logarithm, from the 5th to the 99th percentile.
export function scaleOf(windows) {
  const values = windows.map((one) => one.latencyMs);
  const low = Math.max(0.05, quantile(values, 0.05) ?? 0.05);
  const high = Math.max(low * 2, quantile(values, 0.99) ?? 1);
  const span = Math.log(high / low);
  return {
    low,
    high,
    share: (ms) => Math.min(1, Math.max(0, Math.log(Math.max(0.05, ms) / low) / span)),
    step: (ms) => Math.min(STEPS - 1, Math.floor(Math.min(1, Math.max(0, Math.log(Math.max(0.05, ms) / low) / span)) * STEPS)),
    edges: Array.from({ length: STEPS + 1 }, (_, index) => low * Math.exp((span * index) / STEPS)),
  };
}

// `chosen`: the index of the chosen window, -1: none. `onChoose(index)`; null: live again.
export function Strip({ windows, marks, chosen, onChoose, label = "Window" }) {
  const canvas = useRef();
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState(-1);
  const [theme, setTheme] = useState(0);
  const dragging = useRef(false);
  const shown = windows.slice(-MOST);
  const scale = scaleOf(shown);

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(canvas.current.parentElement);
    const themed = () => setTheme((number) => number + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", themed);
    return () => {
      watch.disconnect();
      dark.removeEventListener("change", themed);
    };
  }, []);

  const step = shown.length ? width / Math.max(60, shown.length) : 0;
  useEffect(() => {
    if (width) draw(canvas.current, { shown, marks, chosen, over, width, step, scale });
  }, [windows, marks, chosen, over, width, theme]);

  function at(event) {
    const x = event.clientX - canvas.current.getBoundingClientRect().left;
    return Math.max(0, Math.min(shown.length - 1, Math.floor(x / step)));
  }

  function press(event) {
    if (event.button || !shown.length) return;
    dragging.current = true;
    canvas.current.setPointerCapture(event.pointerId);
    onChoose(at(event), false);
  }

  function move(event) {
    const index = at(event);
    setOver(index);
    if (dragging.current) onChoose(index, true);
  }

  function release() {
    dragging.current = false;
  }

  function key(event) {
    const last = shown.length - 1;
    const from = chosen < 0 ? last : chosen;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 20, PageDown: from + 20, Home: 0, End: last }[event.key];
    if (event.key === "Escape") onChoose(null, false);
    if (to === undefined || !shown.length) return;
    event.preventDefault();
    onChoose(Math.max(0, Math.min(last, to)), true);
  }

  const said = shown[chosen < 0 ? shown.length - 1 : chosen];
  const seen = over >= 0 ? shown[over] : null;
  return html`<div class="strip">
    <div class="strip-field">
      <canvas
        ref=${canvas}
        height=${HEIGHT}
        tabindex="0"
        role="slider"
        aria-label=${label}
        aria-valuemin=${shown[0]?.windowId ?? 0}
        aria-valuemax=${shown.at(-1)?.windowId ?? 0}
        aria-valuenow=${said?.windowId ?? 0}
        aria-valuetext=${said ? `window ${said.windowId} at ${timeOfDay(said.committedAt)}, ${milliseconds(said.latencyMs)}` : "no window yet"}
        onPointerDown=${press}
        onPointerMove=${move}
        onPointerUp=${release}
        onPointerCancel=${release}
        onPointerLeave=${() => setOver(-1)}
        onKeyDown=${key}
      ></canvas>
      ${seen && html`<div class="strip-tip" style=${{ left: `${Math.min(Math.max(0, width - 210), Math.max(0, over * step - 90))}px` }} aria-hidden="true">
        <b>window ${seen.windowId}</b> ${timeOfDay(seen.committedAt)}<br />
        ${milliseconds(seen.latencyMs)}${seen.lateMs > 1 ? `, ${milliseconds(seen.lateMs)} late` : ""}${seen.attempts > 1 ? `, ${seen.attempts} attempts` : ""}<br />
        <span class="muted">${count(seen.tuplesIn)} in, ${count(seen.tuplesOut)} out</span>
      </div>`}
    </div>
    <div class="strip-legend" aria-label="Colours of latency">
      <span>${milliseconds(scale.edges[0])}</span>
      <span class="strip-scale">${scale.edges.slice(0, STEPS).map((edge, index) => html`<i style=${{ background: `var(--strip-${index})` }} title=${`from ${milliseconds(edge)} on`}></i>`)}</span>
      <span>${milliseconds(scale.edges[STEPS])}</span>
      <span class="strip-failed">retried</span>
    </div>
  </div>`;
}

function draw(canvas, { shown, marks, chosen, over, width, step, scale }) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(HEIGHT * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${HEIGHT}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  const colours = Array.from({ length: STEPS }, (_, index) => colour(`--strip-${index}`));
  const foot = HEIGHT - FOOT;
  const high = foot - TOP - 6;
  const gap = step >= 4 ? 1 : 0;
  context.fillStyle = colour("--line");
  context.fillRect(0, foot, width, 1);
  shown.forEach((one, index) => {
    const tall = Math.max(3, (0.12 + 0.88 * scale.share(one.latencyMs)) * high);
    context.fillStyle = colours[scale.step(one.latencyMs)];
    context.fillRect(index * step, foot - tall, Math.max(1, step - gap), tall);
    if (one.attempts > 1) {
      context.fillStyle = colour("--bad");
      context.fillRect(index * step, foot + 1, Math.max(2, step - gap), 3);
    }
  });
  const xOf = (mark) => {
    const index = indexOf(shown, mark);
    return index < 0 ? null : (index + 0.5) * step;
  };
  drawMarks(context, marks, xOf, 0, foot, style);
  times(context, shown, step, width, foot, colour("--muted"));
  for (const [index, name] of [[over, "--line-strong"], [chosen, "--text"]]) {
    if (index < 0) continue;
    context.strokeStyle = colour(name);
    context.lineWidth = name === "--text" ? 2 : 1;
    const x = (index + 0.5) * step;
    const half = Math.max(3, step / 2 + 1);
    context.strokeRect(x - half, TOP, 2 * half, foot - TOP);
    if (name === "--text") {
      context.fillStyle = colour(name);
      context.beginPath();
      context.moveTo(x - 5, TOP - 6);
      context.lineTo(x + 5, TOP - 6);
      context.lineTo(x, TOP);
      context.fill();
    }
  }
}

// Times below the bars, as many as have room.
function times(context, shown, step, width, foot, colour) {
  context.fillStyle = colour;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  const room = 84;
  let next = 0;
  shown.forEach((one, index) => {
    const x = index * step;
    if (x < next || x + room - 24 > width) return;
    context.textAlign = "left";
    context.fillText(timeOfDay(one.committedAt), x, foot + 5);
    next = x + room * 1.6;
  });
}
