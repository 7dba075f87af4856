// One card of the graph, drawn with SVG: name, kind, bar, rates, and marks where there are any.

import {about, bytes, duration, milliseconds, rate} from "../format.js";
import {html} from "../vendor/preact.js";
import {CARD} from "./layout.js";
import {shortName} from "./model.js";
import {fitted, textWidth} from "./scene.js";

const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
export const NAME = `600 13px ${FAMILY}`;
export const LABEL = `600 11px ${FAMILY}`;
const TEXT = `400 11px ${FAMILY}`;
const PAD = 12;
const WIDE_GAP = 8;

/** The latency as it is shown; "" if none is known. */
function timeOf(figures) {
  return figures?.latencyMs == null ? "" : about(milliseconds(figures.latencyMs), figures.estimated);
}

/** A card at full size. `figures` may be missing: nothing is known yet. Spaces at ends keep the words apart. */
export function FullCard({node, figures, most, onPath}) {
  const inner = CARD.width - 2 * PAD;
  const time = timeOf(figures);
  const side = textWidth(time, NAME) + WIDE_GAP;
  return html`
    <text class="graph-name" x=${PAD} y="22">${fitted(shownName(node), inner - side, NAME)}${" "}</text>
    <text class=${onPath ? "graph-time graph-time-path" : "graph-time"} x=${CARD.width - PAD} y="22">${time}${" "}</text>
    <text class="graph-kind" x=${PAD} y="39">${fitted(kindOf(node, figures), inner, TEXT)}${" "}</text>
    <${Bar} x=${PAD} y=${48} width=${inner} height=${6} figures=${figures} most=${most} />
    <text class="graph-rates" x=${PAD} y="73">${fitted(ratesOf(figures), inner, TEXT)}${" "}</text>
    <${Marks} marks=${marksOf(node, figures)} width=${inner} />`;
}

/** A card at a small size: its name, its latency where there is room, and its bar. */
export function SmallCard({node, figures, most, onPath, width, height}) {
  const inner = width - 16;
  const time = timeOf(figures);
  const second = height > 48;
  const side = second ? 0 : textWidth(time, LABEL) + WIDE_GAP;
  const beside = second || inner - side > 70;
  return html`
    <text class="graph-name graph-name-small" x="8" y="17">${fitted(shownName(node), inner - (beside ? side : 0), LABEL)}${" "}</text>
    ${beside && html`<text class=${`${onPath ? "graph-time graph-time-path" : "graph-time"} graph-time-small`} x=${second ? 8 : width - 8}
      y=${second ? 33 : 17} text-anchor=${second ? "start" : "end"}>${time}${" "}</text>`}
    <${Bar} x=${8} y=${height - 12} width=${inner} height=${5} figures=${figures} most=${most} />`;
}

/** Compute, wait and transfer, as long as the latency is of the longest. */
export function Bar({x, y, width, height, figures, most}) {
  const parts = figures && most ? ["compute", "wait", "transfer"].map((part) => [part, figures[`${part}Ms`] ?? 0]) : [];
  let at = x;
  return html`
    <rect class="graph-track" x=${x} y=${y} width=${width} height=${height} rx=${height / 2} />
    ${parts.map(([part, ms]) => {
      const length = Math.min(x + width - at, (ms / most) * width);
      if (length < 0.3) return null;
      const piece = html`<rect class=${`graph-${part}`} x=${at} y=${y} width=${length} height=${height} />`;
      at += length;
      return piece;
    })}`;
}

function Marks({marks, width}) {
  let at = PAD;
  return html`${marks.map(({kind, text}) => {
    const long = textWidth(text, TEXT) + (kind === "age" ? 0 : 14);
    if (at + long > PAD + width + 1) return null;
    const mark = html`<g class=${`graph-mark graph-mark-${kind}`} transform=${`translate(${at} 80)`}>
      ${kind === "age" ? null : html`<circle cx="4" cy="7.5" r="3" />`}
      <text x=${kind === "age" ? 0 : 11} y="11">${text}${" "}</text></g>`;
    at += long + 8;
    return mark;
  })}`;
}

/** What is worth a mark, the worst first: {kind: bad, warn, plain or age, text}. */
export function marksOf(node, figures) {
  if (!figures) return [];
  const marks = [];
  const add = (kind, text) => marks.push({kind, text});
  if (figures.silent) add("bad", figures.silent === 1 ? "silent" : `${figures.silent} silent`);
  if (figures.failures) add("bad", amount(figures.failures, "failure"));
  if (figures.dropped) add("bad", amount(figures.dropped, "window") + " lost");
  if (figures.errors) add("warn", amount(figures.errors, "error"));
  if (figures.late) add("warn", `${short(figures.late)} late`);
  if (figures.behind > 1) add("warn", `${figures.behind} windows behind`);
  if (figures.sink && figures.ageP50 !== null) {
    add("age", `age ${milliseconds(figures.ageP50)} · p99 ${milliseconds(figures.ageP99)}`);
  }
  if (figures.pressed) add("warn", `${short(figures.queue)} queued`);
  if (figures.lag !== null && figures.lag > 1) add("plain", `watermark ${duration(figures.lag)}`);
  if (figures.state) add("plain", `state ${bytes(figures.state)}`);
  return marks;
}

/** The words that a screen reader says of a card: those that are seen, in their order, and what colours say. */
export function spoken(node, figures, onPath) {
  const time = timeOf(figures);
  const marks = marksOf(node, figures).map((mark) => mark.text);
  const words = [shownName(node), time, kindOf(node, figures), ratesOf(figures), ...marks, onPath && "on the critical path"];
  return words.filter(Boolean).join(" ");
}

export function kindOf(node, figures) {
  if (node.kind === "module") return `module ${shortName(node.className)} · ${amount(node.members.length, "operator")}`;
  if (node.label.includes("#unifier")) return `of ${node.label.split("#unifier")[0]}`;
  const parts = figures?.partitions > 1 && node.kind === "operator" ? ` · ${figures.partitions} partitions` : "";
  return `${shortName(node.className)}${parts}`;
}

function ratesOf(figures) {
  if (!figures) return "";
  if (figures.source) return `${rate(figures.out)}/s out`;
  if (figures.sink) return `${rate(figures.in)}/s in`;
  return `${rate(figures.in)}/s in · ${rate(figures.out)}/s out`;
}

/** A title as it is read: of a unifier its number, as the line below says whose it is. */
export function shownName(node) {
  return node.label.includes("#unifier") ? `unifier ${node.label.split("#unifier")[1]}` : node.label;
}

function amount(number, noun) {
  return `${short(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A number in at most four characters: `950`, `1.2k`, `34M`. */
export function short(number) {
  if (number < 1000) return number < 10 && number % 1 ? number.toFixed(1) : String(Math.round(number));
  for (const [unit, size] of [["k", 1e3], ["M", 1e6], ["G", 1e9]]) {
    const scaled = number / size;
    if (scaled < 9.95) return scaled.toFixed(1) + unit;
    if (scaled < 999.5 || unit === "G") return Math.round(scaled) + unit;
  }
  return "";
}
