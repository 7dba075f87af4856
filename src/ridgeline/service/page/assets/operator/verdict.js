// What an operator waits for, in words. Pure.

import {milliseconds, percent} from "../format.js";

const SKEWED = 1.4;
const MOST = 0.5;

/** One or two sentences: what its latency is made of, and what to look at. */
export function verdict(times, siblings = []) {
  const parts = ["compute", "wait", "transfer"].map((part) => [part, times?.[`${part}Ms`] ?? 0]);
  const total = parts.reduce((sum, [, ms]) => sum + ms, 0);
  if (times?.latencyMs == null) return "It has no figures in this window.";
  if (!total) return "It has taken no time that could be measured.";
  const [most, ms] = parts.reduce((one, other) => (other[1] > one[1] ? other : one));
  const share = `${percent(ms / total)} of its latency`;
  if (most === "wait") {
    const others = siblings.length ? ` In its container run too: ${siblings.join(", ")}.` : "";
    return `It waits: ${share}, ${milliseconds(ms)}, is time for the stage before, for a slot, or for others of its container.${others}`;
  }
  if (most === "transfer") return `It moves tuples or state: ${share}, ${milliseconds(ms)}. Fuse it with those that it reads from, or send fewer columns.`;
  const cpu = times.cpuMs ?? null;
  if (cpu !== null && cpu < MOST * ms) {
    return `It computes: ${share}, ${milliseconds(ms)}. But only ${percent(cpu / ms)} of that is processor time: ` +
      "it waits for something outside, or sleeps. The code says where.";
  }
  return `It computes: ${share}, ${milliseconds(ms)}, on the processor. More partitions, or less work a tuple, make it faster.`;
}

/** Which partition is worse than the others, in words; "" if none is. `rows`: [{title, ownMs, in}]. */
export function skew(rows) {
  if (rows.length < 2) return "";
  const worst = rows.reduce((one, other) => (other.ownMs > one.ownMs ? other : one));
  const fullest = rows.reduce((one, other) => (other.in > one.in ? other : one));
  const others = rows.filter((one) => one !== worst);
  const mean = others.reduce((sum, one) => sum + one.ownMs, 0) / others.length;
  const total = rows.reduce((sum, one) => sum + one.in, 0);
  const share = total ? (fullest.in / total) * rows.length : 1;
  if (mean > 0 && worst.ownMs / mean >= SKEWED) {
    const why = fullest === worst && share >= SKEWED ? `; it gets ${percent(fullest.in / total)} of the tuples` : "";
    return `${worst.title} is worse: ${milliseconds(worst.ownMs)} of its own work, the others ${milliseconds(mean)} on average${why}.`;
  }
  if (share >= SKEWED) return `${fullest.title} gets ${percent(fullest.in / total)} of the tuples: ${share.toFixed(1)} times an even share.`;
  return "No partition is worse than the others.";
}
