// Configuration: the values that count now, and where each was said.
import { html, useMemo } from "../vendor/preact.js";
import { count } from "../format.js";
import { go, useRoute } from "../router.js";
import { useStore } from "../store.js";
import { useAsked } from "../parts/asked.js";
import { Empty, Notice } from "../parts/notice.js";
import { Table } from "../parts/table.js";

const OWN = new Set(["default", "code", "specification", "application", ""]);

function View() {
  const changed = useStore(({ overview }) => `${overview?.info?.planVersion} ${overview?.change?.id} ${overview?.change?.state}`);
  const { answer, problem } = useAsked("/configuration", {}, { every: 0, key: changed });
  const { params } = useRoute();
  const found = params.find ?? "";
  const only = params.only ?? (answer && !answer.known ? "all" : "set");
  const rows = useMemo(() => chosen(answer?.values ?? [], found, only), [answer, found, only]);
  if (!answer) return problem ? html`<${Notice} problem=${problem} />` : html`<${Empty}>Reading the configuration.</>`;
  return html`<div class="configuration">
    <form class="configuration-find" onSubmit=${(event) => event.preventDefault()} role="search">
      <label class="hidden" for="configuration-find">Find a key or value</label>
      <input id="configuration-find" class="field" type="search" placeholder="Find a key or value" value=${found} onInput=${(event) => go({ find: event.target.value, replace: true })} />
      <fieldset class="configuration-only">
        <legend class="hidden">Which values</legend>
        ${[["set", "set by options, files or variables"], ["code", "all but defaults"], ["all", "all"]].map(([name, text]) => html`<label key=${name}>
          <input type="radio" name="only" checked=${only === name} onChange=${() => go({ only: name, replace: true })} /> ${text}
        </label>`)}
      </fieldset>
      <span class="muted">${count(rows.length)} of ${count(answer.values.length)}</span>
    </form>
    ${!answer.known && html`<${Notice} kind="behind"><p>Where values were set is not known for this application: it was not started by <code>ridgeline run</code> or <code>app.start()</code>.</p></>`}
    ${rows.length
      ? html`<${Table} label="Configuration" columns=${COLUMNS} rows=${rows} id=${(row) => row.key} />`
      : html`<${Empty}>${only === "set" && !found ? html`No option, file or variable sets a value. <button type="button" class="button" onClick=${() => go({ only: "all", replace: true })}>Show all values</button>` : "Nothing is found."}</>`}
  </div>`;
}

function chosen(values, find, only) {
  const wanted = find.toLowerCase();
  return values.filter((row) => {
    if (only === "set" && OWN.has(row.layer)) return false;
    if (only === "code" && (row.layer === "default" || row.layer === "application")) return false;
    return !wanted || `${row.key} ${text(row.value)} ${row.place}`.toLowerCase().includes(wanted);
  });
}

function text(value) {
  return typeof value === "string" && value ? value : JSON.stringify(value);
}

const COLUMNS = [
  { name: "key", title: "Key", value: (row) => row.key, cell: (row) => html`<code>${row.key}</code>` },
  { name: "value", title: "Value", value: (row) => text(row.value), cell: (row) => html`<code class="configuration-value">${text(row.value)}</code>` },
  { name: "layer", title: "Layer", value: (row) => row.layer, cell: (row) => html`<span class=${row.layer === "change" ? "behind" : OWN.has(row.layer) ? "muted" : ""}>${row.layer || "-"}</span>` },
  { name: "place", title: "Where", value: (row) => row.place, cell: (row) => html`<span class="configuration-place">${row.place === row.layer ? "" : row.place}</span>` },
  { name: "instead", title: "Instead of", sort: false, value: () => "", cell: (row) => html`<span class="muted configuration-place">${row.insteadOf.map((one) => `${text(one.value)} (${one.place})`).join(", ")}</span>` },
];

export default { name: "configuration", title: "Configuration", View };
