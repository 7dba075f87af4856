// A table that can be sorted by its heads and walked with the keyboard (arrows, Home, End, Enter).
import { count, plural } from "../format.js";
import { html, useRef, useState } from "../vendor/preact.js";

const STILL_MS = 5000;
const MOST_ROWS = 200; // at first: of thousands of rows, each change would draw all

// `columns`: {name, title, value(row), cell(row), number, sort: false}. `value` is what is sorted by.
// `sort`: {by, descending}. Rows keep their places while figures move, for some seconds or while they are pointed at.
// Of many rows the first are drawn, and that which is selected; a button draws more.
// `onOpen(row)`: what Enter or a click does. `selected`: the key of a row.
export function Table({ columns, rows, id, sort: first, onOpen, selected, label, rowClass }) {
  const [sort, setSort] = useState(first ?? { by: null, descending: false });
  const [at, setAt] = useState(null);
  const body = useRef();
  const held = useRef({ sort: null, at: 0, keys: [], busy: false });
  const [most, setMost] = useState(MOST_ROWS);
  const all = inPlace(held.current, rows, columns, sort, id);
  const chosen = held.current.keys.indexOf(selected);
  const drawn = (_, index) => index < most || index === chosen;
  const shown = all.filter(drawn);
  const keys = held.current.keys.filter(drawn);
  const current = keys.includes(at) ? at : keys.includes(selected) ? selected : keys[0];

  function press(column) {
    const same = sort.by === column.name;
    setSort({ by: column.name, descending: same ? !sort.descending : Boolean(column.number) });
  }

  function walk(event) {
    if (event.target.tagName !== "TR") return;
    const index = keys.indexOf(current);
    const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: keys.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const next = Math.max(0, Math.min(keys.length - 1, to));
      setAt(keys[next]);
      body.current.children[next]?.focus();
    } else if (event.key === "Enter" && onOpen) {
      onOpen(shown[index]);
    }
  }

  return html`<div class="table-wrap">
    <table class="table" aria-label=${label}>
      <thead>
        <tr>
          ${columns.map((column) => html`<th
            key=${column.name}
            scope="col"
            class=${column.number ? "number" : ""}
            aria-sort=${sort.by === column.name ? (sort.descending ? "descending" : "ascending") : undefined}
          >
            ${column.sort === false
              ? column.title
              : html`<button type="button" onClick=${() => press(column)}>${column.title}</button>`}
          </th>`)}
        </tr>
      </thead>
      <tbody
        ref=${body}
        onKeyDown=${walk}
        onMouseEnter=${() => (held.current.busy = true)}
        onMouseLeave=${() => (held.current.busy = false)}
      >
        ${shown.map((row, index) => html`<tr
          key=${keys[index]}
          class=${rowClass ? rowClass(row) : ""}
          tabindex=${onOpen ? (keys[index] === current ? 0 : -1) : undefined}
          aria-selected=${selected != null && keys[index] === selected ? "true" : undefined}
          onClick=${onOpen && ((event) => event.target.closest("a, button") || onOpen(row))}
          onFocus=${onOpen && (() => setAt(keys[index]))}
        >
          ${columns.map((column) => html`<td key=${column.name} class=${column.number ? "number" : ""}>
            ${(column.cell ?? column.value)(row)}
          </td>`)}
        </tr>`)}
      </tbody>
    </table>
    ${shown.length < all.length && html`<p class="table-more"><span>${count(shown.length)} of ${plural(all.length, "row")}</span>
      <button type="button" class="button" onClick=${() => setMost(most + MOST_ROWS)}>Show ${count(Math.min(MOST_ROWS, all.length - most))} more</button></p>`}
  </div>`;
}

// The rows in the order in which they were sorted last, unless that was long ago, or there are others.
function inPlace(held, rows, columns, sort, id) {
  const byKey = new Map(rows.map((row) => [id(row), row]));
  const same = held.sort === sort && held.keys.length === byKey.size && held.keys.every((key) => byKey.has(key));
  if (!same || (!held.busy && Date.now() - held.at > STILL_MS)) {
    Object.assign(held, { sort, at: Date.now(), keys: sorted(rows, columns, sort).map(id) });
  }
  return held.keys.map((key) => byKey.get(key));
}

function sorted(rows, columns, { by, descending }) {
  const column = columns.find((one) => one.name === by);
  if (!column) return rows;
  const sign = descending ? -1 : 1;
  return [...rows].sort((first, second) => {
    const [one, other] = [column.value(first), column.value(second)];
    if (one == null || other == null) return (one == null) - (other == null); // the unknown comes last
    return sign * (typeof one === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true }));
  });
}
