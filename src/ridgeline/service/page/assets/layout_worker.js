// Lays a graph out with dagre, beside the page's thread: a request is {id, nodes, edges, frames, card}.

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

function arranged({nodes, edges, card}, frames) {
  const graph = new Graph({compound: frames.length > 0, multigraph: false});
  graph.setGraph({
    rankdir: "LR", nodesep: card.row, edgesep: 14, ranksep: card.column, marginx: 0, marginy: 0, ranker: "network-simplex",
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of nodes) graph.setNode(id, {width: card.width, height: card.height});
  for (const frame of [...frames].sort((one, other) => other.nodes.length - one.nodes.length)) {
    graph.setNode(frame.id, {});
    for (const id of frame.nodes) {
      const outer = graph.parent(id);
      if (outer !== undefined && !graph.parent(frame.id)) graph.setParent(frame.id, outer);
      graph.setParent(id, frame.id);
    }
  }
  for (const [from, to] of edges) graph.setEdge(from, to);
  layout(graph);
  const size = graph.graph();
  return {
    nodes: nodes.map((id) => [id, Math.round(graph.node(id).x), Math.round(graph.node(id).y)]),
    edges: edges.map(([from, to]) => [
      from, to, (graph.edge(from, to)?.points ?? []).slice(1, -1).map(({x, y}) => [Math.round(x), Math.round(y)]),
    ]),
    width: Math.round(size.width), height: Math.round(size.height),
  };
}
