// The application as a graph: logical and physical; the critical path is drawn.

import {Canvas} from "../graph/canvas.js";
import {useGraph} from "../graph/use_graph.js";
import {useAnswer} from "../operator/asking.js";
import {OperatorPanel} from "../operator/panel.js";
import {Empty} from "../parts/notice.js";
import {go, href, useRoute} from "../router.js";
import {useStore} from "../store.js";
import {html} from "../vendor/preact.js";

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
  const {answer: watermarks} = useAnswer("/watermarks");
  const {api, open, split, graph, layout, figures, selected, openNode, unfold, fold} = useGraph(
    {kind, plan, overview, shown, watermarks, params});
  return html`<div class="graph-view"><div class="graph-inside">
    <div class="graph-main">
      <${Toolbar} ...${{kind, params, selected, open, split, plan}} />
      <${Canvas} ...${{graph, layout, figures, selected, api}} onOpen=${openNode} onUnfold=${unfold}
        onFold=${fold} onClose=${() => go({operator: null, part: null, only: null})} />
      <${Legend} />
    </div>
    ${params.operator && html`<${OperatorPanel} key=${params.operator} name=${params.operator} part=${params.part ?? null} />`}
  </div></div>`;
}

function Toolbar({kind, params, selected, open, split, plan}) {
  const all = [...new Set([...(plan.modules ?? []).map((module) => module.name), ...open])];
  const unfolded = all.every((one) => open.includes(one));
  return html`<div class="graph-toolbar" role="toolbar" aria-label="Graph">
    <nav class="graph-plans" aria-label="Plan">${PLANS.map(([name, title]) => html`<a key=${name} class="graph-plan"
        href=${href({plan: name === "logical" ? null : name})} aria-current=${name === kind ? "true" : null}>${title}</a>`)}</nav>
      ${selected && html`<a class="button" role="button" aria-pressed=${Boolean(params.only)}
        href=${href({only: params.only ? null : "1"})} title="Only what is up- and downstream of it">Only its streams</a>`}
      <span class="space"></span>
      ${kind === "logical" && all.length > 0 && html`<a class="button" role="button"
          href=${href({open: unfolded ? null : all.join(","), split: unfolded ? null : split.join(",") || null})}>
          ${unfolded ? "Fold all" : "Unfold all"}</a>`}
  </div>`;
}

function Legend() {
  return html`<ul class="graph-legend" aria-label="Legend">
    <li><i class="graph-key graph-key-compute"></i>compute</li><li><i class="graph-key graph-key-wait"></i>wait</li>
    <li><i class="graph-key graph-key-transfer"></i>transfer</li><li><i class="graph-key graph-key-path"></i>critical path</li></ul>`;
}

export default {name: "graph", title: "Graph", View};
