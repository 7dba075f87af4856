// The columns of tables as the service has them (ridgeline/service/tables.py): the terminal draws from the same ones.
import { about, bytes, count, duration, milliseconds, oldest, percent, percentile, rate, soon, timeOfDay, UNKNOWN } from "../format.js";
import TABLES from "../tables.js";
import { html } from "../vendor/preact.js";

const BASES = { estimated: "about ", schedule: "about ", "lower bound": "at least " };

// How values are written, by the names of the functions that do so in Python; the last five write a whole row.
const FORMS = {
  count, rate, duration, milliseconds, percentile,
  str: (value) => value,
  ago: (value) => `${duration(value)} ago`,
  time_of_day: (value) => timeOfDay(value),
  size: bytes,
  percent: (value) => percent(value / 100),
  due: (row, at) => (row.caughtUpAt == null ? UNKNOWN : `in ${soon(row.caughtUpAt - at)} (${timeOfDay(row.caughtUpAt, at)})`),
  oldest: (row) => oldest(row) ?? UNKNOWN,
  room: (row) => (row.full ? "full" : row.fullInSeconds == null ? UNKNOWN : soon(row.fullInSeconds)),
  work: (row) => (row.infinite ? "unbounded" : duration(row.backlogSeconds)),
  backlog({ backlog: { value, basis, infinite }, unit }) {
    if (infinite) return "unbounded";
    return value == null ? UNKNOWN : `${BASES[basis] ?? ""}${unit === "bytes" ? bytes(value) : `${rate(value)} ${unit ?? ""}`}`;
  },
};

// The columns of a table, as `Table` takes them. `rows`: what is optional is there if one of them has it. `at`: now.
// `cells`: what is drawn of the page's own, by name. `names`: only these.
export function columnsOf(table, rows, { at, cells = {}, names } = {}) {
  return TABLES[table].map((one) => make(one, at, cells)).filter((one) =>
    (!names || names.includes(one.name)) && !(one.optional && !rows.some(one.read)));
}

function make(one, at, cells) {
  const name = one.path.at(-1);
  const read = (row) => one.path.reduce((found, step) => found?.[step], row);
  const levels = Object.keys(one.levels);
  const write = (row) => (one.whole ? FORMS[one.form](row, at) : read(row) == null ? one.unknown : FORMS[one.form](read(row), at));
  // What is told apart is sorted so, the worst first, and before all else.
  const value = (row) => (levels.includes(write(row)) ? levels.indexOf(write(row)) - levels.length : read(row));
  const cell = (row) => {
    const text = about(write(row), one.estimates && row.estimated);
    return one.levels[text] ? html`<span class=${one.levels[text]}>${text}</span>` : text;
  };
  return { ...one, name, read, write, value, cell: cells[name] ?? cell };
}

// A row below the other, as `Facts` takes them; what is not known is left out.
export function factsOf(columns, row) {
  return columns.map((one) => [one.title, one.write(row) === UNKNOWN ? null : one.cell(row)]);
}

// The row that is the worst by a column.
export function worst(rows, columns, name) {
  const { value } = columns.find((one) => one.name === name);
  return rows.reduce((one, other) => (value(other) < value(one) ? other : one));
}

// How good a value is: the name of its class.
export function levelOf(table, name, value) {
  return TABLES[table].find((one) => one.path.at(-1) === name).levels[value] ?? "";
}
