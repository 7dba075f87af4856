// From the live figures to what each node and edge shows. Pure, and cheap enough for four times a second.

const LEAST_QUEUE = 10;
const PRESSED_WINDOWS = 3; // as many windows of tuples wait: its readers do not keep up
const AGE_PLACES = ["publish", "commit", "emit", "state"]; // the last one that an operator has counts

/** All that a graph shows: {nodes, edges, path, most, queues}.
 *
 * `nodes.get(id)` and `edges.get(key)` are made when they are first asked for: of thousands only what is seen.
 * `queues.get(name)`: what waits in the queue of a stream. `path`: {nodes: [ids in order], edges: Set of keys, on: Set of ids}. `most`: the longest latency in ms.
 */
export function figuresOf(graph, where, {overview, shown, watermarks = null}) {
  const rows = index(overview);
  const latency = shown?.latency ?? overview?.latency ?? {};
  const ages = agesByTitle(overview);
  const marks = new Map((watermarks?.operators ?? []).map((one) => [one.id, one]));
  const least = leastBehind(overview);
  const width = overview?.info?.windowSeconds ?? 1;
  const edges = edgeRates(graph, rows, queuesOf(overview));
  const ratesAt = (end, id) => graph.edges.filter((edge) => edge[end] === id).map((edge) => edges.get(`${edge.from}\n${edge.to}`));
  const nodes = onDemand((id) => {
    const node = graph.nodes.get(id);
    if (!node) return undefined;
    const own = node.rows.length
      ? node.rows.map((row) => rows.byId[row.id] ?? row)
      : node.members.flatMap((name) => rows.byName.get(name) ?? []);
    const found = {...timesOf(node, latency), ...sums(own), ...ageOf(own, ages), ...lagOf(own, marks)};
    if (node.kind === "module") {
      found.in = ratesAt("to", id).reduce((sum, rate) => sum + rate, 0);
      found.out = Math.max(0, ...ratesAt("from", id));
    }
    found.source = own.some((row) => row.kind === "input");
    found.sink = own.some((row) => row.kind === "output");
    found.behind = behindOf(own, least);
    found.pressed = found.queue > Math.max(LEAST_QUEUE, PRESSED_WINDOWS * found.in * width);
    return found;
  });
  return {nodes, edges, path: pathOf(graph, where, shown?.criticalPath ?? overview?.criticalPath, rows), most: longest(graph, latency), queues: queuesOf(overview)};
}

/** How much waits in queues between regions, by stream: {waits, seconds, rate}; of several readers that of the slowest. */
function queuesOf(overview) {
  const found = new Map();
  for (const row of overview?.progress?.queues ?? []) {
    if (row.backlogRecords >= (found.get(row.stream)?.waits ?? 0)) {
      found.set(row.stream, {waits: row.backlogRecords, seconds: row.backlogSeconds, rate: row.readPerSecond ?? 0});
    }
  }
  return found;
}

/** A map that makes its values when they are first asked for. */
function onDemand(make) {
  const known = new Map();
  return {get: (key) => known.has(key) ? known.get(key) : known.set(key, make(key)).get(key)};
}

/** The longest latency of a node that is drawn, in ms. */
function longest(graph, latency) {
  let most = 0;
  for (const node of graph.nodes.values()) {
    for (const row of node.rows) most = Math.max(most, latency.operators?.[row.id]?.latencyMs ?? 0);
    if (!node.rows.length) {
      for (const name of node.members) most = Math.max(most, latency.logical?.[name]?.latencyMs ?? 0);
    }
  }
  return most;
}

/** The rows of physical operators by id and by logical name. */
export function index(overview) {
  const byId = overview?.operators ?? {};
  const byName = new Map();
  for (const row of Object.values(byId)) {
    const list = byName.get(row.logicalName);
    if (list) list.push(row);
    else byName.set(row.logicalName, [row]);
  }
  return {byId, byName};
}

/** The visible nodes of a critical path in order, and the edges between them. */
export function pathOf(graph, where, critical, rows) {
  const nodes = [];
  for (const step of critical?.path ?? []) {
    const row = rows.byId[step.id];
    const id = where.byId.get(step.id) ?? (row && where.byName.get(row.logicalName));
    if (id !== undefined && nodes.at(-1) !== id) nodes.push(id);
  }
  const known = edgesOf(graph).byKey;
  const edges = new Set();
  for (let at = 1; at < nodes.length; at++) {
    const key = `${nodes[at - 1]}\n${nodes[at]}`;
    if (known.has(key)) edges.add(key);
  }
  return {nodes, edges, on: new Set(nodes)};
}

/** How many windows even the first operator of each region is behind: the whole region is, not an operator. */
function leastBehind(overview) {
  const least = new Map();
  for (const row of Object.values(overview?.operators ?? {})) {
    least.set(row.region, Math.min(least.get(row.region) ?? Infinity, row.windowsBehind ?? 0));
  }
  return least;
}

function behindOf(rows, least) {
  return rows.reduce((most, row) => Math.max(most, (row.windowsBehind ?? 0) - (least.get(row.region) ?? 0)), 0);
}

function timesOf(node, latency) {
  const all = node.rows.length
    ? node.rows.map((row) => latency.operators?.[row.id])
    : node.members.map((name) => latency.logical?.[name]);
  let worst = null;
  let slowest = null;
  all.forEach((row, at) => {
    if (row && row.latencyMs != null && (worst === null || own(row) > own(worst))) {
      worst = row;
      slowest = node.rows.length ? node.rows[at].operator : node.members[at];
    }
  });
  return {
    latencyMs: worst?.latencyMs ?? null, computeMs: worst?.computeMs ?? 0, waitMs: worst?.waitMs ?? 0,
    transferMs: worst?.transferMs ?? 0, ownMs: worst ? own(worst) : null, slowest,
    estimated: worst?.estimated === true,
  };
}

function own(row) {
  return (row.computeMs ?? 0) + (row.transferMs ?? 0);
}

function sums(rows) {
  const found = {
    in: 0, out: 0, errors: 0, late: 0, queue: 0, state: 0, failures: 0, dropped: 0,
    partitions: 0, unifiers: 0, silent: 0, waiting: 0,
  };
  for (const row of rows) {
    if (row.unifierClass) found.unifiers += row.partitions ?? 1;
    else {
      found.partitions += row.partitions ?? 1;
      found.in += row.tuplesProcessedPSMA ?? 0;
      found.out += row.tuplesEmittedPSMA ?? 0;
    }
    found.errors += row.errors ?? 0;
    found.late += row.lateRecords ?? 0;
    found.queue += row.queueSizeMA ?? 0;
    found.state += (row.stateBytes ?? 0) + (row.heldBytes ?? 0);
    found.failures += row.failureCount ?? 0;
    found.dropped += row.droppedWindows ?? 0;
    found.silent += row.status === "SILENT";
    found.waiting += row.status === "WAITING";
  }
  if (!found.partitions && found.unifiers) {
    for (const row of rows) {
      found.in += row.tuplesProcessedPSMA ?? 0;
      found.out += row.tuplesEmittedPSMA ?? 0;
    }
  }
  return found;
}

function agesByTitle(overview) {
  const found = new Map();
  for (const row of overview?.recordAge?.operators ?? []) {
    if (row.p50Ms == null) continue;
    const known = found.get(row.id);
    if (!known || AGE_PLACES.indexOf(row.at) < AGE_PLACES.indexOf(known.at)) found.set(row.id, row);
  }
  return found;
}

function ageOf(rows, ages) {
  let [p50, p99] = [null, null];
  for (const row of rows) {
    const age = ages.get(row.id);
    if (!age) continue;
    p50 = Math.max(p50 ?? -Infinity, age.p50Ms);
    p99 = Math.max(p99 ?? -Infinity, age.p99Ms);
  }
  return {ageP50: p50, ageP99: p99};
}

function lagOf(rows, marks) {
  let lag = null;
  for (const row of rows) {
    const mark = marks.get(row.id);
    if (mark && mark.lagSeconds != null) lag = Math.max(lag ?? -Infinity, mark.lagSeconds);
  }
  return {lag};
}

const indexed = new WeakMap();

/** The edges of a graph by key, and those that have physical streams; made once for each graph. */
function edgesOf(graph) {
  let found = indexed.get(graph);
  if (!found) {
    const byKey = new Map(graph.edges.map((edge) => [`${edge.from}\n${edge.to}`, edge]));
    found = {byKey, physicalOnes: graph.edges.filter((edge) => edge.streams.some((stream) => stream.id !== null))};
    indexed.set(graph, found);
  }
  return found;
}

/** The tuples per second of edges, by `from` and `to` with a line's end between them. */
function edgeRates(graph, rows, queues) {
  const ports = new Map();
  const port = (row, name, type) => {
    const key = `${row.id} ${type} ${name}`;
    if (!ports.has(key)) {
      ports.set(key, row.ports?.find((one) => one.name === name && one.type === type)?.tuplesPSMA ?? 0);
    }
    return ports.get(key);
  };
  const {byKey, physicalOnes} = edgesOf(graph);
  const given = new Map(); // what all of its sources emit, by reading port
  const into = (stream) => `${stream.sink} ${stream.sinkPort}`;
  for (const edge of physicalOnes) {
    for (const stream of edge.streams) {
      const source = rows.byId[stream.id];
      if (source) given.set(into(stream), (given.get(into(stream)) ?? 0) + port(source, stream.port, "output"));
    }
  }
  const physical = (stream, source) => {
    const [out, sink] = [port(source, stream.port, "output"), rows.byId[stream.sink]];
    const known = sink?.ports?.some((one) => one.name === stream.sinkPort && one.type === "input");
    return known ? port(sink, stream.sinkPort, "input") * (out / (given.get(into(stream)) || 1)) : out;
  };
  const logical = (stream) => (rows.byName.get(stream.from) ?? []).filter((row) => !row.unifierClass)
    .reduce((sum, row) => sum + port(row, stream.port, "output"), 0);
  return onDemand((key) => (byKey.get(key)?.streams ?? []).reduce((sum, stream) => {
    const source = rows.byId[stream.id];
    if (stream.queue) return sum + (source ? source.tuplesProcessedPSMA ?? 0 : queues.get(stream.name)?.rate ?? 0);
    return sum + (source ? physical(stream, source) : logical(stream));
  }, 0));
}
