// Properties and attributes: what they are, what was changed while it runs, and a change of them.

import {timeOfDay} from "../format.js";
import {useReadOnly, useStore} from "../store.js";
import {html, useState} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";
import {ChangeDialog} from "./change.js";

export function Settings({name}) {
  const path = `/logicalPlan/operators/${encodeURIComponent(name)}`;
  const version = useStore((state) => state.overview?.info?.planVersion);
  const kept = useStore((state) => state.overview?.info?.propertiesKept) ?? {};
  const properties = useAnswer(`${path}/properties`, {}, 0, version);
  const attributes = useAnswer(`${path}/attributes`, {}, 0, version);
  const configuration = useAnswer("/configuration", {}, 0, version);
  const changes = useAnswer("/changes", {}, 5_000);
  const said = saidBy(changes.answer?.changes ?? [], configuration.answer?.values ?? [], name, kept);
  const [edit, setEdit] = useState(null);
  const readOnly = useReadOnly();
  const close = () => {
    setEdit(null);
    properties.again();
    attributes.again();
    changes.again();
  };
  return html`
    <${Values} title="Properties" values=${properties.answer} said=${said.property} none="It has no properties."
      onChange=${(property, value) => setEdit({do: "set-property", operator: name, property, value})} />
    <${Values} title="Attributes" values=${attributes.answer} said=${said.attribute} none="It has no attributes."
      onChange=${(attribute, value) => setEdit(attribute === "partitions" ? {do: "repartition", operator: name, partitions: value}
        : {do: "set-attribute", operator: name, attribute, value})} />
    ${edit && html`<${ChangeDialog} edit=${edit} onClose=${close} />`}`;
}

/** Where each value was said, and who changed it while it runs: {property, attribute}, maps of name to text. */
export function saidBy(changes, configured, operator, kept) {
  const found = {property: {}, attribute: {}};
  const keys = new Set(configured.map((row) => row.key)); // `prop.` tells a property from an attribute of its name
  for (const row of configured) {
    if (row.operator !== operator || !row.layer || row.layer === "default") continue;
    const text = row.place && row.place !== row.layer ? `${row.layer}, ${row.place}` : row.layer;
    const name = row.key.slice(`operator.${operator}.`.length);
    if (name.startsWith("prop.")) found.property[name.slice("prop.".length)] = text;
    else {
      found.attribute[name] = text;
      if (!keys.has(`operator.${operator}.prop.${name}`)) found.property[name] = text;
    }
  }
  for (const name of Object.keys(kept)) {
    if (name.startsWith(`${operator}.`)) found.property[name.slice(operator.length + 1)] = "kept from the run before";
  }
  for (const change of changes) {
    if (change.state !== "APPLIED") continue;
    const text = `change ${change.id} by ${change.who}, ${timeOfDay(change.at)}${change.note ? `: ${change.note}` : ""}`;
    for (const edit of change.edits ?? []) {
      if (edit.operator !== operator) continue;
      if (edit.do === "set-property") found.property[edit.property] = text;
      if (edit.do === "set-attribute" && !edit.port) found.attribute[edit.attribute] = text;
      if (edit.do === "repartition") found.attribute.partitions = text;
    }
  }
  return found;
}

function Values({title, values, said, none, onChange}) {
  const [editing, setEditing] = useState(null);
  const [text, setText] = useState("");
  const readOnly = useReadOnly();
  if (!values) return html`<p class="operator-empty" role="status">Loading its ${title.toLowerCase()}.</p>`;
  const names = Object.keys(values);
  if (!names.length) return html`<h3 class="operator-title">${title}</h3><p class="operator-empty">${none}</p>`;
  return html`<table class="operator-table operator-values"><caption>${title}</caption>
    <thead class="hidden"><tr><th scope="col">name</th><th scope="col">value</th><th scope="col">change</th></tr></thead>
    <tbody>${names.map((name) => html`<tr key=${name} class=${values[name] === null ? "operator-unset" : ""}>
      <th scope="row">${name}${said[name] && html`<small>${said[name]}</small>`}</th>
      <td>${editing === name ? html`<form onSubmit=${(event) => {
        event.preventDefault();
        setEditing(null);
        onChange(name, read(text));
      }}><input class="field" aria-label=${`New value of ${name}`} value=${text} ref=${(input) => input?.focus()}
          onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => {
            if (event.key === "Escape") {
              event.stopPropagation();
              setEditing(null);
            }
          }} />
        <button type="submit" class="button">See what would change</button></form>` : html`<code>${values[name] === null ? "none" : said_(values[name])}</code>`}</td>
      <td class="operator-number">${editing !== name && !readOnly && html`<button type="button" class="button quiet" aria-label=${`Change ${name}`} onClick=${() => {
        setText(values[name] === null ? "" : said_(values[name]));
        setEditing(name);
      }}>Change</button>`}</td></tr>`)}</tbody></table>`;
}

function said_(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A value as it was typed: JSON where it is JSON, else the text; so is a whole number that JavaScript cannot hold. */
export function read(text) {
  if (text.trim() === "") return null;
  try {
    const value = JSON.parse(text);
    return typeof value === "number" && /^\s*-?\d+\s*$/.test(text) && !Number.isSafeInteger(value) ? text.trim() : value;
  } catch {
    return text;
  }
}
