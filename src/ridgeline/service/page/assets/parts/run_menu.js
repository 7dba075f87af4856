// Pause, go on, and end the application: first what will happen, and the command that does the same.
import { html, useRef, useState } from "../vendor/preact.js";
import { useStore } from "../store.js";
import { Change } from "./change.js";
import { Needs, useNeeds } from "./needs.js";

const ACTS = {
  pause: {
    word: "Pause",
    title: "Pause the application",
    action: "/pause",
    command: "pause",
    says: "No further window begins; those under way are committed. Sources keep what arrives: the backlog grows until it is resumed.",
  },
  resume: {
    word: "Resume",
    title: "Resume the application",
    action: "/resume",
    command: "resume",
    says: "Windows begin again, and the backlog at the sources is processed.",
  },
  stop: {
    word: "Stop",
    title: "Stop the application",
    action: "/shutdown",
    command: "stop",
    says: "It ends after the windows under way; all that is committed stays. This page ends with it. Its command starts it again, on the same checkpoint.",
  },
};

export function RunMenu() {
  const state = useStore(({ overview }) => overview?.info?.state);
  const id = useStore(({ overview }) => overview?.info?.id);
  const live = useStore(({ connection }) => connection.live);
  const [act, setAct] = useState(null);
  const menu = useRef();
  const needs = useNeeds("operate", "This");
  const acts = state === "PAUSED" ? ["resume", "stop"] : ["pause", "stop"];

  function choose(name) {
    menu.current.open = false;
    menu.current.querySelector("summary").focus();
    setAct(name);
  }

  function leave(event) {
    if (!menu.current.contains(event.relatedTarget)) menu.current.open = false;
  }

  function key(event) {
    if (event.key !== "Escape" || !menu.current.open) return;
    menu.current.open = false;
    menu.current.querySelector("summary").focus();
  }

  const { word, command, ...asks } = act ? ACTS[act] : {};
  return html`
    ${live && ["RUNNING", "PAUSED"].includes(state) && html`<details class="menu" ref=${menu} onFocusOut=${leave} onKeyDown=${key}>
      <summary class="button quiet">Run</summary>
      <div class="menu-items">
        <${Needs} id="run-needs" text=${needs} />
        ${acts.map((name) => html`<button key=${name} type="button" class="button quiet" aria-describedby=${needs ? "run-needs" : undefined} onClick=${() => choose(name)}>${ACTS[name].word}…</button>`)}
      </div>
    </details>`}
    ${act && html`<${Change} ...${asks} command=${`ridgeline ${command} ${shell(id ?? "")}`} onClose=${() => setAct(null)} />`}
  `;
}

function shell(text) {
  return /^[\w.@:/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
