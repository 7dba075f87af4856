// Names and values, one below the other; and what stands beside a table.
import { html } from "../vendor/preact.js";
import { go, useRoute } from "../router.js";
import { Table } from "./table.js";

// `rows`: [name, value]; those without a value are left out.
export function Facts({ rows, label }) {
  const shown = rows.filter(([, value]) => value != null && value !== "" && value !== false);
  return html`<dl class="facts" aria-label=${label}>
    ${shown.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

// A table whose rows open beside it. `by`: the parameter of the address that has the id of the open row. `detail(row)`:
// what is shown of it. `before`: above the table. Children: below it. The rest is as `Table` takes it.
export function Listing({ by, columns, rows, id, detail, before, children, ...table }) {
  const { params } = useRoute();
  const chosen = rows.find((row) => id(row) === params[by]);
  return html`<${Split} detail=${chosen && detail(chosen)}>
    ${before}
    <${Table} columns=${chosen ? columns.filter((column) => !column.extra) : columns} ...${{ rows, id, ...table }}
      selected=${params[by]} onOpen=${(row) => go({ [by]: id(row) })} />
    ${children}
  </>`;
}

// A table, and the details of the row that the address names, beside or below it.
export function Split({ detail, children }) {
  return html`<div class=${detail ? "split open" : "split"}>
    <div class="split-list">${children}</div>
    ${detail}
  </div>`;
}

// `closes`: the parameters of the address that are removed by closing.
export function Detail({ title, label = title, closes, children }) {
  const none = Object.fromEntries(closes.map((name) => [name, null]));
  return html`<aside class="card split-detail" aria-label=${label}>
    <div class="split-head">
      <h2>${title}</h2>
      <button type="button" class="button quiet" aria-label="Close" onClick=${() => go(none)}>✕</button>
    </div>
    ${children}
  </aside>`;
}
