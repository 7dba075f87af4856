// A chart over time, with marks: uPlot in the colours of the page.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import uPlot from "../vendor/uplot.js";
import { timeOfDay } from "../format.js";

const LINES = ["--compute", "--transfer", "--muted"];
const MARKS = { change: "--text", decision: "--muted", failure: "--bad", broken: "--bad", chosen: "--accent" };
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// `at`: seconds since 1970, rising. `series`: {label, values, colour: "--name", fill}. `format`: a value as text.
// `marks`: {at, kind, label}, kinds as in MARKS. `label`: what the chart is. `onChoose(index)`: a click.
export function Chart({ at, series, format, marks = [], label, height = 160, onChoose }) {
  const place = useRef();
  const plot = useRef(null);
  const latest = useRef();
  latest.current = { marks, onChoose, format, at };
  const [near, setNear] = useState(null);
  const [theme, setTheme] = useState(0);
  const names = series.map((one) => one.label).join("\n");

  useEffect(() => {
    const again = () => setTheme((number) => number + 1);
    window.addEventListener("themechange", again);
    return () => window.removeEventListener("themechange", again);
  }, []);

  useEffect(() => {
    const made = new uPlot(options(series, height, place.current.clientWidth, latest, setNear), data(at, series), place.current);
    plot.current = made;
    const width = new ResizeObserver(([entry]) => made.setSize({ width: Math.max(120, entry.contentRect.width), height }));
    width.observe(place.current);
    const click = () => {
      if (latest.current.onChoose && made.cursor.idx != null) latest.current.onChoose(made.cursor.idx);
    };
    made.over.addEventListener("click", click);
    return () => {
      width.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, height, theme]);

  useEffect(() => {
    plot.current?.setData(data(at, series));
  }, [at, series]);

  useEffect(() => {
    plot.current?.redraw(false);
  }, [marks]);

  const index = near ?? at.length - 1;
  const said = near == null ? null : nearest(marks, at[near], at);
  return html`<figure class="chart" aria-label=${label} role="group">
    <figcaption class="chart-legend">
      ${series.map((one, number) => html`<span key=${one.label} style=${{ "--swatch": `var(${one.colour ?? LINES[number % LINES.length]})` }}>
        ${one.label} <b class="number">${index >= 0 ? format(one.values[index]) : ""}</b>
      </span>`)}
      <span class="chart-at">${near == null ? "" : timeOfDay(at[near])}${said ? ` · ${said.label}` : ""}</span>
    </figcaption>
    <div class=${onChoose ? "chart-place choosing" : "chart-place"} ref=${place} aria-hidden="true"></div>
    ${marks.length > 0 && html`<ul class="hidden">${marks.map((mark) => html`<li>${timeOfDay(mark.at)}: ${mark.label}</li>`)}</ul>`}
  </figure>`;
}

function data(at, series) {
  return [at, ...series.map((one) => one.values)];
}

// The mark that lies within two steps of a time.
function nearest(marks, time, at) {
  const reach = at.length > 1 ? ((at[at.length - 1] - at[0]) / at.length) * 2 : 1;
  return marks.find((mark) => Math.abs(mark.at - time) <= reach);
}

function options(series, height, width, latest, setNear) {
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: colour("--muted"), font: FONT, grid, ticks: { ...grid, size: 4 } };
  return {
    width: Math.max(120, width),
    height,
    legend: { show: false },
    padding: [8, 8, 0, 0],
    cursor: { points: { size: 6 }, y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 1) * 1.1 || 1] } },
    axes: [
      { ...axis, space: 80, values: (_, ticks) => ticks.map((tick) => timeOfDay(tick)) },
      { ...axis, size: 64, space: 32, values: (_, ticks) => ticks.map((tick) => latest.current.format(tick)) },
    ],
    series: [
      {},
      ...series.map((one, number) => {
        const name = one.colour ?? LINES[number % LINES.length];
        return {
          label: one.label,
          stroke: colour(name),
          width: 1.5,
          fill: one.fill ? `color-mix(in srgb, ${colour(name)} 18%, transparent)` : undefined,
          points: { show: false },
        };
      }),
    ],
    hooks: {
      setCursor: [(made) => setNear(made.cursor.idx ?? null)],
      draw: [(made) => drawMarks(made, latest.current.marks)],
    },
  };
}

function drawMarks(made, marks) {
  const { ctx, bbox } = made;
  ctx.save();
  for (const mark of marks) {
    const x = made.valToPos(mark.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = colour(MARKS[mark.kind] ?? "--muted");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(mark.kind === "decision" ? [3, 3] : []);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const size = 4 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + size * 1.4);
    ctx.fill();
  }
  ctx.restore();
}
