// Edits of the plan: chosen one after the other, shown as the difference that they make, and made together.
import { html, useState } from "../vendor/preact.js";
import { go, useRoute } from "../router.js";
import { useReadOnly, useStore } from "../store.js";
import { Change } from "../parts/change.js";
import { Needs, useNeeds } from "../parts/needs.js";
import { commandOf, editsOf, KINDS, namesOf, words } from "./kinds.js";

const FIRST = "add-operator";

// A button, or the form where the address has `edit`: one of `KINDS`. `on`: the operator that is meant.
export function PlanEdits() {
  const { params } = useRoute();
  if (useReadOnly()) return null;
  if (!params.edit) {
    return html`<p class="edits-open"><button type="button" class="button" onClick=${() => go({ edit: FIRST })}>Edit the plan</button></p>`;
  }
  const kind = Object.hasOwn(KINDS, params.edit) ? params.edit : FIRST;
  return html`<${Form} kind=${kind} on=${params.on ?? ""} />`;
}

function Form({ kind, on }) {
  const plan = useStore((state) => state.plan);
  const needs = useNeeds("admin", "Editing the plan");
  const names = namesOf(plan);
  const [values, setValues] = useState({ name: on });
  const [chosen, setChosen] = useState([]);
  const [problem, setProblem] = useState("");
  const [asked, setAsked] = useState(null);
  const { fields } = KINDS[kind];
  const isBlank = fields.every((field) => !(values[field.name] ?? "").trim());

  function set(name, text) {
    setValues((before) => ({ ...before, [name]: text }));
    setProblem("");
  }

  // The edits that were chosen, with that of the fields; null if something is wrong.
  function all() {
    if (isBlank && chosen.length) return chosen;
    const found = editsOf(kind, values);
    setProblem(found.problem ?? "");
    return found.problem ? null : [...chosen, ...found.edits];
  }

  function add() {
    const edits = all();
    if (!edits) return;
    setChosen(edits);
    setValues({});
  }

  function see(event) {
    event.preventDefault();
    setAsked(all());
  }

  function close(row) {
    setAsked(null);
    if (!row) return;
    setChosen([]);
    setValues({});
    go({ edit: null, on: null, replace: true });
  }

  return html`<form class="card edits" aria-label="Edit the plan" onSubmit=${see}>
    <div class="split-head"><h2>Edit the plan</h2>
      <button type="button" class="button quiet" aria-label="Close the form" onClick=${() => go({ edit: null, on: null })}>✕</button></div>
    <${Needs} id="edits-needs" text=${needs} />
    <div class="edits-fields">
      <div class="edits-what"><label for="edits-what">What</label>
        <select id="edits-what" class="field" value=${kind} onChange=${(event) => go({ edit: event.target.value, replace: true })}>
          ${Object.entries(KINDS).map(([name, { title }]) => html`<option key=${name} value=${name} selected=${name === kind}>${title}</option>`)}
        </select></div>
      ${fields.map((field) => html`<${Field} key=${`${kind} ${field.name}`} field=${field} value=${values[field.name] ?? ""} names=${names[field.of]} onInput=${(text) => set(field.name, text)} />`)}
    </div>
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}
    ${chosen.length > 0 && html`<ol class="edits-chosen" aria-label="Edits that are made together">
      ${chosen.map((edit, index) => html`<li key=${index}><span>${words(edit)}</span>
        <button type="button" class="button quiet" aria-label=${`Leave out ${words(edit)}`} onClick=${() => setChosen(chosen.filter((_, at) => at !== index))}>✕</button></li>`)}
    </ol>`}
    <div class="edits-actions">
      <button type="button" class="button" disabled=${isBlank} onClick=${add}>And another edit</button>
      <button type="submit" class="button first" disabled=${isBlank && !chosen.length} aria-describedby=${needs ? "edits-needs" : undefined}>See what would change</button>
      <span class="muted">All of them are made at one window boundary, or none is.</span>
    </div>
    ${asked && html`<${Change} title="Edit the plan" edits=${asked} command=${commandOf(asked, plan?.application ?? "APP")} onClose=${close} />`}
  </form>`;
}

function Field({ field, value, names, onInput }) {
  const id = `edits-${field.name}`;
  const take = (event) => onInput(event.target.value);
  const title = `${field.title}${field.optional ? " (may be left out)" : ""}`;
  if (field.long) {
    return html`<label class="edits-long">${title}
      <textarea class="field mono" rows="5" spellcheck=${false} placeholder=${field.example} value=${value} onInput=${take}></textarea></label>`;
  }
  return html`<label>${title}
    <input class="field" list=${names ? id : undefined} autocomplete="off" spellcheck=${false} placeholder=${field.example ?? ""} value=${value} onInput=${take} />
    ${names && html`<datalist id=${id}>${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`}</label>`;
}
