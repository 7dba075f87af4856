// The change of an operator: its edit, as a dialog that first shows the difference, and as a command.

import {Change} from "../parts/change.js";
import {useStore} from "../store.js";
import {html} from "../vendor/preact.js";

/** `edit`: as `/changes` takes it. `onClose(row)`: `row` is the change, if it was made. */
export function ChangeDialog({edit, onClose}) {
  const application = useStore((state) => state.plan?.application ?? "APP");
  return html`<${Change} title=${titleOf(edit)} edits=${[edit]} command=${commandOf(edit, application)} onClose=${onClose} />`;
}

function titleOf(edit) {
  if (edit.do === "repartition") return `Partitions of ${edit.operator}: ${edit.partitions}`;
  return `${edit.operator}.${edit.property ?? edit.attribute}: ${said(edit.value)}`;
}

/** The `ridgeline` command of an edit. */
export function commandOf(edit, application) {
  const words = {
    "repartition": ["repartition", application, edit.operator, String(edit.partitions)],
    "set-property": ["set-operator-property", application, edit.operator, edit.property, said(edit.value)],
    "set-attribute": ["set-operator-attribute", application, edit.operator, edit.attribute, said(edit.value)],
  }[edit.do];
  return ["ridgeline", ...words.map(quoted)].join(" ");
}

function said(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A word as a shell takes it. */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
