// Lays a graph out with dagre, beside the page's thread: a request is {id, nodes, edges, frames, card}.
// dagre keeps names as members of objects, where `__proto__` is none: it gets each with a mark before it.

import {Graph, layout} from "./vendor/dagre.js";

self.addEventListener("message", ({data}) => {
  let made = null;
  try {
    made = arranged(data, data.frames);
  } catch {
    made = arranged(data, []); // dagre cannot place every nesting of frames
  }
  self.postMessage({id: data.id, layout: made});
});

const marked = (id) => `n${id}`;

function arranged({nodes, edges, card}, frames) {
  const graph = new Graph({compound: frames.length > 0, multigraph: false});
  graph.setGraph({
    rankdir: "LR", nodesep: card.row, edgesep: 14, ranksep: card.column, marginx: 0, marginy: 0, ranker: "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of nodes) graph.setNode(marked(id), {width: card.width, height: card.height});
  for (const frame of [...frames].sort((one, other) => other.nodes.length - one.nodes.length)) {
    const inner = marked(frame.id);
    graph.setNode(inner, {});
    for (const id of frame.nodes.map(marked)) {
      const outer = graph.parent(id);
      if (outer !== undefined && !graph.parent(inner)) graph.setParent(inner, outer);
      graph.setParent(id, inner);
    }
  }
  for (const [from, to] of edges) graph.setEdge(marked(from), marked(to));
  layout(graph);
  const size = graph.graph();
  return {
    nodes: nodes.map((id) => [id, Math.round(graph.node(marked(id)).x), Math.round(graph.node(marked(id)).y)]),
    edges: edges.map(([from, to]) => [
      from, to, (graph.edge(marked(from), marked(to))?.points ?? []).slice(1, -1).map(({x, y}) => [Math.round(x), Math.round(y)]),
    ]),
    width: Math.round(size.width), height: Math.round(size.height),
  };
}
