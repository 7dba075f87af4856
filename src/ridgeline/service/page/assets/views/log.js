// Log: the last lines of all operators in one list, in the order of time; of all regions, where there are several.
import { html } from "../vendor/preact.js";
import { LogLines } from "../parts/log.js";

function View() {
  return html`<section class="card"><h2>What operators print and log</h2><${LogLines} /></section>`;
}

export default { name: "log", title: "Log", View };
