// What the picture of a plan is made of: its graph as the reader wants it, its layout, and what each node shows.

import {go} from "../router.js";
import {useEffect, useMemo, useRef, useState} from "../vendor/preact.js";
import {figuresOf, index} from "./figures.js";
import {arrange, columns, kept} from "./layout.js";
import {hashOf, physicalGraph, places, reachable, visibleGraph} from "./model.js";

/** The graph of a plan, where it is, and what its reader does with it.
 *
 * `params`: what the reader has chosen: {operator, part, open, split, only}.
 */
export function useGraph({kind, plan, overview, shown, watermarks = null, params}) {
  const api = useRef(null);
  const {open, split} = {open: listed(params.open), split: listed(params.split)};
  const rows = overview.operators;
  const physical = useMemo(() => ({operators: Object.values(rows), streams: plan.physical ?? []}), [plan, Object.keys(rows).join()]);
  const whole = useMemo(() => (kind === "physical" ? physicalGraph(physical)
    : visibleGraph(plan, {open: new Set(open), split: new Set(split), physical: split.length ? physical : null})),
  [plan, physical, kind, params.open, params.split]);
  const at = useMemo(() => places(whole), [whole]);
  const selected = selectedNode(params, whole, at, index(overview));
  const graph = useMemo(() => (params.only && selected ? reachable(whole, selected) : whole), [whole, params.only, selected]);
  const where = useMemo(() => places(graph), [graph]);
  const layout = useLayout(graph);
  const figures = useMemo(() => figuresOf(graph, where, {overview, shown, watermarks}), [graph, overview, shown, watermarks]);
  const change = (list, id, on) => (on ? [...new Set([...list, id])] : list.filter((one) => one !== id)).join(",") || null;
  const openNode = (node) => go(node.rows.length === 1
    ? {operator: node.members[0], part: String(node.rows[0].id)} : {operator: selects(node), part: null});
  const unfold = (node) => go(node.kind === "operator" ? {split: change(split, node.id, true)}
    : {open: change(open, node.id, true)});
  const fold = (frame) => go(frame.kind === "split" ? {split: change(split, frame.id, false)}
    : {open: open.filter((one) => one !== frame.id && !one.startsWith(`${frame.id}.`)).join(",") || null});
  return {api, open, split, graph, layout, figures, selected, openNode, unfold, fold};
}

/** The visible node of what the reader has chosen. */
function selectedNode(params, graph, where, rows) {
  if (!params.operator) return null;
  if (params.part && where.byId.has(Number(params.part))) return where.byId.get(Number(params.part));
  if (graph.nodes.has(params.operator)) return params.operator;
  const known = where.byName.get(params.operator);
  if (known) return known;
  const first = (rows.byName.get(params.operator) ?? [])[0];
  return first ? where.byId.get(first.id) ?? null : null;
}

/** What a node selects: its operator, or the module by its own name. */
function selects(node) {
  return node.kind === "module" ? node.id : node.members[0];
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
