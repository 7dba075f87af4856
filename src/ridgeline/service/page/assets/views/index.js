// The views, in the order of the navigation. Each is loaded, with its style, when it is first opened.
export const views = [
  { name: "overview", title: "Overview", load: () => import("./overview.js") },
  { name: "graph", title: "Graph", load: () => import("./graph.js") },
];
