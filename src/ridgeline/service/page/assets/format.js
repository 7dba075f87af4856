// Numbers as the terminal writes them (ridgeline/measure/wording/units.py), so that page, terminal and commands say the same.

export const UNKNOWN = "-";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0, roundingMode: "halfEven" });

// A number with so many digits; one in the middle of two becomes the even one, as Python has it.
function fixed(number, digits) {
  if (Math.abs((number * 2 ** (digits + 1)) % 2) !== 1) return number.toFixed(digits);
  const unit = 10 ** digits;
  const low = Math.floor(number * unit);
  return ((low % 2 ? low + 1 : low) / unit).toFixed(digits);
}

const LONGEST = 1e15; // from here on numbers are shown by their power of ten

export function count(number) {
  if (number == null) return UNKNOWN;
  return Math.abs(number) >= LONGEST ? number.toExponential(2) : whole.format(number);
}

export function rate(number) {
  if (number == null) return UNKNOWN;
  return number > 0 && number < 10 ? fixed(number, 1) : count(number);
}

export function duration(seconds) {
  if (seconds == null) return UNKNOWN;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 1) {
    const ms = seconds * 1000;
    return `${fixed(ms, ms >= 10 || !ms ? 0 : ms >= 0.1 ? 1 : 2)} ms`;
  }
  if (seconds < 60) return `${fixed(seconds, seconds < 10 ? 2 : 1)} s`;
  if (seconds < 3600) {
    const rounded = Number(fixed(seconds, 0));
    return `${Math.floor(rounded / 60)} min ${rounded % 60} s`;
  }
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  if (seconds >= LONGEST) return `${(seconds / 86400).toExponential(2)} d`;
  return `${whole.format(Math.floor(seconds / 86400))} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

export function milliseconds(value) {
  return value == null ? UNKNOWN : duration(value / 1000);
}

// A figure as text; one that is estimated is marked, one that is not known is not.
export function about(text, estimated) {
  return estimated && text !== UNKNOWN ? `about ${text}` : text;
}

// A percentile in milliseconds, from a histogram, which does not distinguish times below 0.1 ms.
export function percentile(value) {
  return value === 0 ? "<0.1 ms" : milliseconds(value);
}

export function soon(seconds) {
  const seconds_ = Math.max(1, Number(fixed(seconds, 0)));
  return seconds_ < 60 ? `${seconds_} s` : duration(seconds_);
}

// A time where the user is, `14:03:12`; with the day if it is another one than that of `now`.
export function timeOfDay(at, now = Date.now() / 1000) {
  if (at == null) return UNKNOWN;
  const moment = new Date(at * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const time = [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":");
  if (moment.toDateString() === new Date(now * 1000).toDateString()) return time;
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())} ${time}`;
}

// A name of at most so many characters; its middle is left out where it is longer, as ends tell names apart.
export function cut(name, most = 48) {
  return name.length <= most ? name : `${name.slice(0, Math.ceil(most / 2) - 1)}…${name.slice(name.length - Math.floor(most / 2))}`;
}

// A text of which nothing is hidden, and nothing turns what stands around it: such characters are written as their codes.
export function visible(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function plural(number, noun) {
  return `${whole.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function bytes(number) {
  if (number == null) return UNKNOWN;
  let value = number;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(value) < 1024) return `${fixed(value, unit === "B" ? 0 : 1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} TiB`;
}

export function percent(fraction, digits = 0) {
  return fraction == null ? UNKNOWN : `${fixed(fraction * 100, digits)} %`;
}

// For how long the oldest record waits; null if it is not known.
export function oldest({ oldest: found }) {
  return found?.value == null ? null : `${found.basis === "lower bound" ? "> " : ""}${duration(found.value)}`;
}
