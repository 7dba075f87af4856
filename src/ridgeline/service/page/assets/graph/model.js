// From plans to what is drawn: nodes and edges, with modules folded and partitions shown.
// All of it is pure: no document, no figures.

/**
 * A node: {id, kind, label, className, members, rows}.
 * `kind`: operator, partition, unifier or module. `members`: names of logical operators; `rows`: physical ones.
 * An edge: {from, to, streams: [{name, from, port}]}.
 */

/** The graph of a logical plan as the reader wants it.
 *
 * open: names of modules that are unfolded; split: names of operators shown by partitions;
 * physical: the physical plan, needed for `split` only.
 */
export function visibleGraph(plan, {open = new Set(), split = new Set(), physical = null} = {}) {
  const modules = new Map((plan.modules ?? []).map((module) => [module.name, module]));
  const folded = (name) => {
    for (const outer of outside(name)) {
      if (modules.has(outer) && !open.has(outer)) return outer;
    }
    return null;
  };
  const nodes = new Map();
  const of = new Map(); // visible node of each logical operator, unless it is split
  const parts = physical ? partitionsOf(physical) : new Map();
  for (const operator of plan.operators) {
    const module = folded(operator.name);
    if (module !== null) {
      const node = nodes.get(module) ?? moduleNode(modules.get(module));
      node.members.push(operator.name);
      nodes.set(module, node);
      of.set(operator.name, module);
    } else if (split.has(operator.name) && parts.has(operator.name)) {
      for (const row of parts.get(operator.name)) nodes.set(`#${row.id}`, physicalNode(row));
    } else {
      nodes.set(operator.name, operatorNode(operator));
      of.set(operator.name, operator.name);
    }
  }
  const edges = physical && split.size ? mixedEdges(plan, physical, of, nodes) : logicalEdges(plan, of);
  return {nodes, edges: [...edges.values()], frames: frames(nodes, modules, open, split)};
}

/** The graph of all physical operators. */
export function physicalGraph(physical) {
  const nodes = new Map(physical.operators.map((row) => [`#${row.id}`, physicalNode(row)]));
  const edges = new Map();
  for (const stream of physical.streams) {
    for (const sink of stream.sinks) {
      addEdge(edges, `#${stream.source.operatorId}`, `#${sink.operatorId}`, physicalStream(stream, sink));
    }
  }
  return {nodes, edges: [...edges.values()], frames: []};
}

/** Only a node with what is up- and downstream of it. */
export function reachable(graph, id) {
  if (!graph.nodes.has(id)) return graph;
  const kept = new Set([id]);
  const {before, after} = neighbours(graph);
  for (const next of [before, after]) {
    const todo = [id];
    while (todo.length) {
      for (const one of next.get(todo.pop()) ?? []) {
        if (!kept.has(one)) {
          kept.add(one);
          todo.push(one);
        }
      }
    }
  }
  return {
    nodes: new Map([...graph.nodes].filter(([one]) => kept.has(one))),
    edges: graph.edges.filter((edge) => kept.has(edge.from) && kept.has(edge.to)),
    frames: graph.frames
      .map((frame) => ({...frame, nodes: frame.nodes.filter((one) => kept.has(one))}))
      .filter((frame) => frame.nodes.length),
  };
}

/** The neighbours of each node: {before, after}, maps of id to list of ids. */
export function neighbours(graph) {
  const before = new Map();
  const after = new Map();
  for (const edge of graph.edges) {
    push(after, edge.from, edge.to);
    push(before, edge.to, edge.from);
  }
  return {before, after};
}

/** The visible node of a physical operator, and of a logical one: {byId, byName}. */
export function places(graph) {
  const byId = new Map();
  const byName = new Map();
  for (const node of graph.nodes.values()) {
    for (const row of node.rows) byId.set(row.id, node.id);
    for (const name of node.members) {
      if (!byName.has(name)) byName.set(name, node.id);
    }
  }
  return {byId, byName};
}

/** A short number that is the same for the same nodes and edges: what a layout is kept by. */
export function hashOf(graph) {
  let hash = 0x811c9dc5;
  const add = (text) => {
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
    hash = Math.imul(hash ^ 10, 0x01000193);
  };
  for (const id of graph.nodes.keys()) add(id);
  for (const edge of graph.edges) add(`${edge.from}\t${edge.to}`);
  for (const frame of graph.frames) add(`${frame.id}\t${frame.nodes.join("\t")}`);
  return `${graph.nodes.size}-${(hash >>> 0).toString(36)}`;
}

/** The last part of a name with dots: of a class, of an operator in a module. */
export function shortName(name) {
  return name.slice(name.lastIndexOf(".") + 1);
}

/** The names of the modules that a name is in, the outermost first. */
export function outside(name) {
  const names = [];
  for (let at = name.indexOf("."); at >= 0; at = name.indexOf(".", at + 1)) names.push(name.slice(0, at));
  return names;
}

// Nodes ------------------------------------------------------------------------------------------------------

function operatorNode(operator) {
  return node(operator.name, "operator", operator.name, operator.class, [operator.name]);
}

function moduleNode(module) {
  return node(module.name, "module", module.name, module.class, []);
}

function physicalNode(row) {
  const kind = row.unifierClass ? "unifier" : "partition";
  return {...node(`#${row.id}`, kind, row.operator, row.className, [row.logicalName]), rows: [row]};
}

function node(id, kind, label, className, members) {
  return {id, kind, label, className, members, rows: []};
}

function partitionsOf(physical) {
  const found = new Map();
  for (const row of physical.operators) push(found, row.logicalName, row);
  return found;
}

function frames(nodes, modules, open, split) {
  const inside = new Map();
  for (const one of nodes.values()) {
    for (const outer of outside(one.members[0] ?? one.id)) {
      if (modules.has(outer) && open.has(outer) && one.id !== outer) push(inside, `module ${outer}`, one.id);
    }
    if (one.rows.length && split.has(one.members[0])) push(inside, `split ${one.members[0]}`, one.id);
  }
  return [...inside].map(([key, ids]) => {
    const [kind, id] = [key.slice(0, key.indexOf(" ")), key.slice(key.indexOf(" ") + 1)];
    return {id, kind, label: id, nodes: ids, outer: kind === "module" ? outside(id).at(-1) ?? null : null};
  });
}

// Edges ------------------------------------------------------------------------------------------------------

function logicalEdges(plan, of) {
  const edges = new Map();
  for (const stream of plan.streams) {
    for (const sink of stream.sinks) {
      const [from, to] = [of.get(stream.source.operatorName), of.get(sink.operatorName)];
      addEdge(edges, from, to, logicalStream(stream));
    }
  }
  addQueues(edges, plan, of);
  return edges;
}

/** The queues between regions, as edges between their ends. */
function addQueues(edges, plan, of) {
  for (const {name, from, to} of plan.queues ?? []) addEdge(edges, of.get(from), of.get(to), {name, from, port: null, id: null, queue: true});
}

/** Edges where some operators are split: by physical streams at those, by logical ones elsewhere. */
function mixedEdges(plan, physical, of, nodes) {
  const edges = new Map();
  for (const stream of plan.streams) {
    for (const sink of stream.sinks) {
      const [from, to] = [of.get(stream.source.operatorName), of.get(sink.operatorName)];
      if (from !== undefined && to !== undefined) addEdge(edges, from, to, logicalStream(stream));
    }
  }
  addQueues(edges, plan, of);
  const rows = new Map(physical.operators.map((row) => [row.id, row]));
  const visible = (id) => (nodes.has(`#${id}`) ? `#${id}` : of.get(rows.get(id)?.logicalName));
  for (const stream of physical.streams) {
    for (const sink of stream.sinks) {
      const [from, to] = [visible(stream.source.operatorId), visible(sink.operatorId)];
      if (nodes.get(from)?.rows.length || nodes.get(to)?.rows.length) addEdge(edges, from, to, physicalStream(stream, sink));
    }
  }
  return edges;
}

function logicalStream(stream) {
  return {name: stream.name, from: stream.source.operatorName, port: stream.source.portName, id: null};
}

function physicalStream(stream, sink) {
  return {
    name: stream.logicalName, from: null, port: stream.source.portName, id: stream.source.operatorId,
    sink: sink.operatorId, sinkPort: sink.portName, sinks: stream.sinks.length, queue: stream.kind === "queue",
  };
}

function addEdge(edges, from, to, stream) {
  if (from === undefined || to === undefined || from === to) return;
  const key = `${from}\n${to}`;
  const edge = edges.get(key) ?? {from, to, streams: []};
  if (!edge.streams.some((one) => one.name === stream.name && one.port === stream.port && one.id === stream.id)) {
    edge.streams.push(stream);
  }
  edges.set(key, edge);
}

function push(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
