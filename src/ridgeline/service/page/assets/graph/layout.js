// Where nodes are: columns at once, then dagre's layout from a worker, kept by the graph's hash.

export const CARD = {width: 196, height: 104, column: 70, row: 26};
const KEY = "ridgeline.layout.";
const INDEX = "ridgeline.layouts";
const MOST_KEPT = 24;
const LARGEST_KEPT = 1_000_000;
export const MOST_FOR_DAGRE = 1_500;

/** A layout in columns by longest path: {nodes: Map id -> {x, y}, edges: Map key -> points, width, height}.
 *
 * Places are the middles of cards. Loops are opened where they close.
 */
export function columns(graph) {
  const {order, depth, before} = layers(graph);
  const rows = [];
  for (const id of order) (rows[depth.get(id)] ??= []).push(id);
  const height = Math.max(...rows.map((row) => row.length), 1) * (CARD.height + CARD.row);
  const nodes = new Map();
  rows.forEach((row, column) => {
    const weight = new Map(row.map((id, at) => {
      const ys = (before.get(id) ?? []).filter((one) => nodes.has(one)).map((one) => nodes.get(one).y);
      return [id, ys.length ? ys.reduce((sum, y) => sum + y, 0) / ys.length : at];
    }));
    if (column) row.sort((one, other) => weight.get(one) - weight.get(other));
    const top = (height - row.length * (CARD.height + CARD.row)) / 2;
    row.forEach((id, at) => nodes.set(id, {
      x: column * (CARD.width + CARD.column) + CARD.width / 2,
      y: top + at * (CARD.height + CARD.row) + CARD.height / 2,
    }));
  });
  return {nodes, edges: new Map(), width: rows.length * (CARD.width + CARD.column) - CARD.column, height};
}

/** The layer of each node by longest path, and nodes in topological order; edges that close a loop do not count. */
export function layers(graph) {
  const after = new Map();
  const before = new Map();
  const open = new Map([...graph.nodes.keys()].map((id) => [id, 0]));
  const back = backEdges(graph);
  for (const edge of graph.edges) {
    if (back.has(edge)) continue;
    (after.get(edge.from) ?? after.set(edge.from, []).get(edge.from)).push(edge.to);
    (before.get(edge.to) ?? before.set(edge.to, []).get(edge.to)).push(edge.from);
    open.set(edge.to, open.get(edge.to) + 1);
  }
  const depth = new Map([...graph.nodes.keys()].map((id) => [id, 0]));
  const order = [...open].filter(([, count]) => !count).map(([id]) => id);
  for (let at = 0; at < order.length; at++) {
    for (const next of after.get(order[at]) ?? []) {
      depth.set(next, Math.max(depth.get(next), depth.get(order[at]) + 1));
      open.set(next, open.get(next) - 1);
      if (!open.get(next)) order.push(next);
    }
  }
  return {order, depth, before, after};
}

function backEdges(graph) {
  const out = new Map();
  for (const edge of graph.edges) (out.get(edge.from) ?? out.set(edge.from, []).get(edge.from)).push(edge);
  const state = new Map();
  const back = new Set();
  for (const root of graph.nodes.keys()) {
    if (state.has(root)) continue;
    const stack = [[root, 0]];
    state.set(root, 1);
    while (stack.length) {
      const top = stack.at(-1);
      const edge = (out.get(top[0]) ?? [])[top[1]++];
      if (!edge) {
        state.set(top[0], 2);
        stack.pop();
      } else if (state.get(edge.to) === 1) back.add(edge);
      else if (!state.has(edge.to)) {
        state.set(edge.to, 1);
        stack.push([edge.to, 0]);
      }
    }
  }
  return back;
}

export function edgeKey(edge) {
  return `${edge.from}\n${edge.to}`;
}

/** What the worker takes: plain lists. */
export function request(graph) {
  return {
    nodes: [...graph.nodes.keys()],
    edges: graph.edges.map((edge) => [edge.from, edge.to]),
    frames: graph.frames.map((frame) => ({id: `frame ${frame.kind} ${frame.id}`, nodes: frame.nodes})),
    card: CARD,
  };
}

/** A layout from what the worker answered, or from what was kept. */
export function fromAnswer(answer) {
  return {
    nodes: new Map(answer.nodes.map(([id, x, y]) => [id, {x, y}])),
    edges: new Map(answer.edges.map(([from, to, points]) => [`${from}\n${to}`, points])),
    width: answer.width, height: answer.height,
  };
}

/** The layout that is kept for a hash; null if there is none. */
export function kept(hash) {
  try {
    const storage = globalThis.localStorage; // may be forbidden
    const text = storage?.getItem(KEY + hash);
    return text ? fromAnswer(JSON.parse(text)) : null;
  } catch {
    return null;
  }
}

/** Keep the worker's answer by the graph's hash; the oldest go first. Without storage nothing is kept. */
export function keep(hash, answer) {
  try {
    const storage = globalThis.localStorage;
    const text = JSON.stringify(answer);
    if (!storage || text.length > LARGEST_KEPT) return;
    const index = [hash, ...JSON.parse(storage.getItem(INDEX) ?? "[]").filter((one) => one !== hash)];
    for (const old of index.splice(MOST_KEPT)) storage.removeItem(KEY + old);
    storage.setItem(KEY + hash, text);
    storage.setItem(INDEX, JSON.stringify(index));
  } catch {
    // full, or forbidden: the layout is made again next time
  }
}

const IDLE_MS = 10_000;
let worker = null;
let idle = 0;
const waiting = new Map();
let number = 0;

/** Ask the worker for a layout; `done` gets it unless the returned function was called before. */
export function arrange(graph, hash, done) {
  if (graph.nodes.size > MOST_FOR_DAGRE) return () => {};
  worker ??= startWorker();
  if (!worker) return () => {};
  clearTimeout(idle);
  const id = ++number;
  waiting.set(id, (answer) => {
    keep(hash, answer);
    done(fromAnswer(answer));
  });
  worker.postMessage({id, ...request(graph)});
  return () => waiting.delete(id);
}

/** The worker; null where the browser allows none: columns stay. It ends when there is nothing to do. */
function startWorker() {
  let made = null;
  try {
    made = new Worker(new URL("../layout_worker.js", import.meta.url), {type: "module"});
  } catch {
    return null;
  }
  made.addEventListener("message", ({data}) => {
    const take = waiting.get(data.id);
    waiting.delete(data.id);
    if (take && data.layout) take(data.layout);
    clearTimeout(idle);
    if (!waiting.size) {
      idle = setTimeout(() => {
        made.terminate();
        worker = null;
      }, IDLE_MS);
    }
  });
  return made;
}
