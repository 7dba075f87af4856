// What an operator prints and logs: the last lines, of one partition where one is chosen.

import {LogLines} from "../parts/log.js";
import {html} from "../vendor/preact.js";

export function Logs({name, rows, part}) {
  const row = part === null ? null : rows.find((one) => one.id === part);
  const partition = row && !row.unifierClass && row.partition >= 0 ? row.partition : null;
  return html`<${LogLines} operator=${name} partition=${partition} />`;
}
