// The application as a graph: logical, physical, and as it is executed; the critical path is drawn.

import {get} from "../api.js";
import {cut, milliseconds} from "../format.js";
import {Canvas} from "../graph/canvas.js";
import {Execution} from "../graph/execution.js";
import {figuresOf, index, pathSteps} from "../graph/figures.js";
import {arrange, columns, kept} from "../graph/layout.js";
import {found, hashOf, physicalGraph, places, reachable, visibleGraph} from "../graph/model.js";
import {OperatorPanel} from "../operator/panel.js";
import {onKey} from "../parts/keys.js";
import {Empty} from "../parts/notice.js";
import {go, href, useRoute} from "../router.js";
import {useStore} from "../store.js";
import {html, useEffect, useMemo, useRef, useState} from "../vendor/preact.js";

const PLANS = [["logical", "Logical"], ["physical", "Physical"], ["execution", "Execution"]];
const WATERMARKS_MS = 2_000;

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
  const api = useRef(null);
  const [text, setText] = useState("");
  const {open, split} = {open: listed(params.open), split: listed(params.split)};
  const physical = useMemo(() => ({operators: Object.values(overview.operators), streams: plan.physical ?? []}),
    [plan, Object.keys(overview.operators).join()]);
  const whole = useMemo(() => (kind === "physical" ? physicalGraph(physical)
    : visibleGraph(plan, {open: new Set(open), split: new Set(split), physical: split.length ? physical : null})),
  [plan, physical, kind, params.open, params.split]);
  const at = useMemo(() => places(whole), [whole]);
  const selected = selectedNode(params, whole, at, index(overview));
  const graph = useMemo(() => (params.only && selected ? reachable(whole, selected) : whole), [whole, params.only, selected]);
  const where = useMemo(() => places(graph), [graph]);
  const layout = useLayout(graph);
  const watermarks = useWatermarks();
  const figures = useMemo(() => figuresOf(graph, where, {overview, shown, watermarks}), [graph, overview, shown, watermarks]);
  const hits = useMemo(() => (text.trim() ? new Set(found(graph, text)) : null), [graph, text]);
  const change = (list, id, on) => (on ? [...new Set([...list, id])] : list.filter((one) => one !== id)).join(",") || null;
  const openNode = (node) => go(node.rows.length === 1
    ? {operator: node.members[0], part: String(node.rows[0].id)} : {operator: selects(node), part: null});
  const unfold = (node) => go(node.kind === "operator" ? {split: change(split, node.id, true)}
    : {open: change(open, node.root ?? node.id, true)});
  const fold = (frame) => go(frame.kind === "split" ? {split: change(split, frame.id, false)}
    : {open: open.filter((one) => one !== frame.id && !one.startsWith(`${frame.id}.`)).join(",") || null});
  const show = (id) => {
    const node = graph.nodes.get(id);
    if (node) {
      openNode(node);
      api.current?.show(id);
    }
  };
  const foldable = Boolean(plan.modules?.length || open.length) || [...whole.nodes.values()].some((node) => node.kind === "group");
  return html`<div class="graph-view"><div class="graph-inside">
    <div class="graph-main">
      <${Toolbar} ...${{kind, params, selected, text, setText, hits, graph, show, foldable, open, split, plan}} />
      <${PathStrip} known=${!shown?.problem} critical=${shown?.criticalPath ?? overview.criticalPath} operators=${overview.operators}
        selected=${params.operator} pick=${(name) => {
          go({operator: name, part: null});
          const id = where.byName.get(name);
          if (id) api.current?.show(id);
        }} />
      ${kind === "execution" ? html`<${Execution} ...${{overview, figures: shown, selected: params.operator}} />`
        : html`<${Canvas} ...${{graph, layout, figures, selected, hits, api}} onOpen=${openNode} onUnfold=${unfold}
            onFold=${fold} onClose=${() => go({operator: null, part: null, only: null})} />
          <${Legend} />`}
    </div>
    ${params.operator && html`<${OperatorPanel} key=${params.operator} name=${params.operator} part=${params.part ?? null} />`}
  </div></div>`;
}

/** The visible node of what the address selects. */
function selectedNode(params, graph, where, rows) {
  if (!params.operator) return null;
  if (params.part && where.byId.has(Number(params.part))) return where.byId.get(Number(params.part));
  if (graph.nodes.has(params.operator)) return params.operator;
  const known = where.byName.get(params.operator);
  if (known) return known;
  const first = (rows.byName.get(params.operator) ?? [])[0];
  return first ? where.byId.get(first.id) ?? null : null;
}

/** What a node selects: its operator, or the module or group by its own name. */
function selects(node) {
  return node.kind === "group" ? node.members[0] : node.kind === "module" ? node.id : node.members[0];
}

function listed(text) {
  return text ? text.split(",").filter(Boolean) : [];
}

/** Columns at once, or the layout that is kept; then the worker's. */
function useLayout(graph) {
  const hash = useMemo(() => hashOf(graph), [graph]);
  const [arranged, setArranged] = useState({hash: null, layout: null});
  const first = useMemo(() => kept(hash) ?? columns(graph), [hash]);
  useEffect(() => (kept(hash) ? undefined : arrange(graph, hash, (layout) => setArranged({hash, layout}))), [hash]);
  return arranged.hash === hash ? arranged.layout : first;
}

function useWatermarks() {
  const [rows, setRows] = useState(null);
  const live = useStore((state) => state.connection.live);
  useEffect(() => {
    let over = !live;
    let timer = 0;
    const ask = async () => {
      try {
        const answer = await get("/watermarks");
        if (!over) setRows(answer);
      } catch {
        // the next one may come through
      }
      if (!over) timer = setTimeout(ask, WATERMARKS_MS);
    };
    if (live) ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [live]);
  return rows;
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
    ${kind !== "execution" && html`
      <input ref=${input} class="graph-search" type="search" placeholder="Find in the graph  f" aria-label="Find in the graph"
        value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => {
          event.stopPropagation();
          if (event.key === "Enter" && hits?.size) show([...hits][0]);
          if (event.key === "Escape") {
            setText("");
            event.target.blur();
          }
        }} />
      ${hits && html`<span class="graph-hits" role="status">${hits.size === 1 ? "1 found" : `${hits.size} found`}</span>`}
      ${selected && html`<a class="graph-toggle" role="button" aria-pressed=${Boolean(params.only)}
        href=${href({only: params.only ? null : "1"})} title="Only what is up- and downstream of it">Only its streams</a>`}
      <span class="graph-space"></span>
      ${kind === "logical" && foldable && html`<a class="graph-toggle" role="button"
          href=${href({open: unfolded ? null : all.join(","), split: unfolded ? null : split.join(",") || null})}>
          ${unfolded ? "Fold all" : "Unfold all"}</a>`}`}
  </div>`;
}

/** The critical path as a list of its own: what it is, and how much of it each operator is. */
function PathStrip({known, critical, operators, selected, pick}) {
  const steps = pathSteps(critical, operators);
  if (!steps.length) return html`<p class="graph-strip graph-strip-empty" role="status">${known
    ? "No window is committed yet: the critical path is not known." : "Of this window the critical path is not known."}</p>`;
  const most = Math.max(...steps.map((step) => step.ms));
  return html`<div class="graph-strip">
    <span class="graph-strip-title">Critical path <b>${milliseconds(critical.latencyMs)}</b></span>
    <ol class="graph-steps">${steps.map((step) => html`<li key=${step.name}>
      <button type="button" class=${step.ms === most ? "graph-step graph-step-most" : "graph-step"}
        aria-pressed=${selected === step.name} onClick=${() => pick(step.opens)}
        title=${`${step.titles.join(", ")}: compute ${milliseconds(step.computeMs)}, transfer ${milliseconds(step.transferMs)}`}>
        ${cut(step.name, 40)} <span class="graph-step-ms">${milliseconds(step.ms)}</span></button></li>`)}</ol>
  </div>`;
}

function Legend() {
  return html`<ul class="graph-legend" aria-label="Legend">
    <li><i class="graph-key graph-key-compute"></i>compute</li><li><i class="graph-key graph-key-wait"></i>wait</li>
    <li><i class="graph-key graph-key-transfer"></i>transfer</li><li><i class="graph-key graph-key-path"></i>critical path</li></ul>`;
}

export default {name: "graph", title: "Graph", View};
