// The panel of one operator, beside the graph: what it does now, its past, partitions, ports, settings, stack.

import {milliseconds, percent} from "../format.js";
import {shortName} from "../graph/model.js";
import {go, href, useRoute} from "../router.js";
import {useStore} from "../store.js";
import {html, useEffect, useMemo, useRef} from "../vendor/preact.js";
import {Logs} from "./logs.js";
import {Metrics} from "./metrics.js";
import {Now} from "./now.js";
import {Partitions} from "./partitions.js";
import {Ports} from "./ports.js";
import {Settings} from "./settings.js";
import {Stack} from "./stack.js";

const TABS = [
  ["now", "Now", Now], ["partitions", "Partitions", Partitions], ["ports", "Ports", Ports],
  ["settings", "Settings", Settings], ["stack", "Code", Stack], ["logs", "Log", Logs], ["metrics", "Metrics", Metrics],
];

/** `name`: of a logical operator or module, or the title of a physical operator. `part`: id of one. */
export function OperatorPanel({name, part}) {
  const {params} = useRoute();
  const plan = useStore((state) => state.plan);
  const overview = useStore((state) => state.overview);
  const shown = useStore((state) => state.shown);
  const panel = useRef(null);
  const close = () => {
    go({operator: null, part: null, tab: null, only: null});
    document.querySelector(".graph-card[tabindex='0']")?.focus();
  };
  useEffect(() => {
    const escape = (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
    };
    const element = panel.current;
    element?.addEventListener("keydown", escape);
    return () => element?.removeEventListener("keydown", escape);
  }, [name]);
  const rows = useMemo(() => Object.values(overview.operators), [overview.operators]);
  const operator = plan.operators.find((one) => one.name === name);
  const titled = operator ? null : rows.find((row) => row.operator === name);
  const module = (plan.modules ?? []).find((one) => one.name === name);
  const title = operator?.name ?? titled?.logicalName ?? name;
  const own = rows.filter((row) => row.logicalName === title);
  const tab = TABS.some(([one]) => one === params.tab) ? params.tab : "now";
  const share = (shown?.criticalPath ?? overview.criticalPath)?.logicalShare?.[title];
  const View = TABS.find(([one]) => one === tab)[2];
  const kind = operator?.class ?? module?.class ?? own[0]?.className ?? "";
  return html`<aside class="operator-panel" ref=${panel} aria-label=${`Operator ${title}`}>
    <header class="operator-head">
      <div class="operator-names"><h2>${title}</h2>
        <p title=${kind}>${module && !operator ? "module " : ""}${shortName(kind)}${share > 0 &&
          html` · <span class="operator-share">on the critical path in ${percent(share)} of the last windows</span>`}</p></div>
      <button type="button" class="button quiet" aria-label="Close the panel" title="Close (Escape)" onClick=${close}>✕</button>
    </header>
    ${operator || titled ? html`
      <div class="operator-tabs" role="tablist" aria-label="About the operator" onKeyDown=${walk}>
        ${TABS.map(([one, text]) => html`<a key=${one} role="tab" id=${`operator-tab-${one}`} class="operator-tab"
          href=${href({tab: one === "now" ? null : one})} aria-selected=${one === tab} aria-controls="operator-body"
          tabindex=${one === tab ? 0 : -1}>${text}</a>`)}</div>
      <div class="operator-body" id="operator-body" role="tabpanel" aria-labelledby=${`operator-tab-${tab}`} tabindex="0">
        <${View} key=${tab} ...${{name: title, operator, rows: own, overview, shown, plan}} part=${part ? Number(part) : titled?.id ?? null} /></div>`
    : module ? html`<div class="operator-body"><${Members} ...${{name, plan, overview, shown}} /></div>`
    : html`<p class="operator-empty" role="status">The plan has no operator ${name} now.</p>`}
  </aside>`;
}

function walk(event) {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!step) return;
  const tabs = [...event.currentTarget.children];
  const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
}

/** What a module is made of. */
function Members({name, plan, overview, shown}) {
  const latency = shown?.latency ?? overview.latency;
  const members = plan.operators.filter((one) => one.name.startsWith(`${name}.`));
  return html`<table class="operator-table"><caption>Its operators</caption>
    <thead><tr><th scope="col">operator</th><th scope="col" class="operator-number">latency</th></tr></thead>
    <tbody>${members.map((one) => html`<tr key=${one.name}>
      <td><a href=${href({operator: one.name, part: null})}>${one.name}</a></td>
      <td class="operator-number">${milliseconds(latency.logical?.[one.name]?.latencyMs ?? null)}</td></tr>`)}</tbody></table>`;
}
