// The application as a graph: logical and physical; the critical path is drawn.

import {Canvas} from "../graph/canvas.js";
import {Legend, PathStrip} from "../graph/path_strip.js";
import {useGraph} from "../graph/use_graph.js";
import {useAnswer} from "../operator/asking.js";
import {OperatorPanel} from "../operator/panel.js";
import {onKey} from "../parts/keys.js";
import {Empty} from "../parts/notice.js";
import {go, href, useRoute} from "../router.js";
import {useStore} from "../store.js";
import {html, useEffect, useMemo, useRef, useState} from "../vendor/preact.js";

const PLANS = [["logical", "Logical"], ["physical", "Physical"]];

function View() {
  const {params} = useRoute();
  const plan = useStore((state) => state.plan);
  const overview = useStore((state) => state.overview);
  const shown = useStore((state) => state.shown);
  if (!plan?.operators?.length || !overview?.operators) return html`<${Empty}>Waiting for the plan.</>`;
  return html`<${Graph} params=${named(params, plan, overview)} ...${{plan, overview, shown}} />`;
}

/** The address with the name of a logical operator, where it has the title of a physical one, as `score[0]`. */
function named(params, plan, overview) {
  if (!params.operator || plan.operators.some((one) => one.name === params.operator)) return params;
  const row = Object.values(overview.operators).find((one) => one.operator === params.operator);
  return row ? {...params, operator: row.logicalName, part: params.part ?? String(row.id)} : params;
}

function Graph({params, plan, overview, shown}) {
  const kind = PLANS.some(([name]) => name === params.plan) ? params.plan : "logical";
  const [text, setText] = useState("");
  const {answer: watermarks} = useAnswer("/watermarks");
  const {api, open, split, whole, graph, layout, figures, selected, hits, openNode, unfold, fold, show, pick} = useGraph(
    {kind, plan, overview, shown, watermarks, params, text});
  const foldable = Boolean(plan.modules?.length || open.length) || [...whole.nodes.values()].some((node) => node.kind === "group");
  return html`<div class="graph-view"><div class="graph-inside">
    <div class="graph-main">
      <${Toolbar} ...${{kind, params, selected, text, setText, hits, graph, show, foldable, open, split, plan}} />
      <${PathStrip} known=${!shown?.problem} critical=${shown?.criticalPath ?? overview.criticalPath} operators=${overview.operators}
        selected=${params.operator} pick=${pick} />
      <${Canvas} ...${{graph, layout, figures, selected, hits, api}} onOpen=${openNode} onUnfold=${unfold}
        onFold=${fold} onClose=${() => go({operator: null, part: null, only: null})} />
      <${Legend} />
    </div>
    ${params.operator && html`<${OperatorPanel} key=${params.operator} name=${params.operator} part=${params.part ?? null} />`}
  </div></div>`;
}

function Toolbar({kind, params, selected, text, setText, hits, graph, show, foldable, open, split, plan}) {
  const input = useRef(null);
  useEffect(() => onKey("f", "find in the graph", () => input.current?.focus()), []);
  const names = useMemo(() => (plan.modules ?? []).map((module) => module.name), [plan]);
  const all = [...new Set([...names, ...[...graph.nodes.values()].filter((node) => node.root).map((node) => node.root), ...open])];
  const unfolded = all.every((one) => open.includes(one));
  return html`<div class="graph-toolbar" role="toolbar" aria-label="Graph">
    <nav class="graph-plans" aria-label="Plan">${PLANS.map(([name, title]) => html`<a key=${name} class="graph-plan"
        href=${href({plan: name === "logical" ? null : name})} aria-current=${name === kind ? "true" : null}>${title}</a>`)}</nav>
    <input ref=${input} class="field graph-search" type="search" placeholder="Find in the graph  f" aria-label="Find in the graph"
        value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => {
          event.stopPropagation();
          if (event.key === "Enter" && hits?.size) show([...hits][0]);
          if (event.key === "Escape") {
            setText("");
            event.target.blur();
          }
        }} />
      ${hits && html`<span class="muted" role="status">${hits.size === 1 ? "1 found" : `${hits.size} found`}</span>`}
      ${selected && html`<a class="button" role="button" aria-pressed=${Boolean(params.only)}
        href=${href({only: params.only ? null : "1"})} title="Only what is up- and downstream of it">Only its streams</a>`}
      <span class="space"></span>
      ${kind === "logical" && foldable && html`<a class="button" role="button"
          href=${href({open: unfolded ? null : all.join(","), split: unfolded ? null : split.join(",") || null})}>
          ${unfolded ? "Fold all" : "Unfold all"}</a>`}
  </div>`;
}

export default {name: "graph", title: "Graph", View};
