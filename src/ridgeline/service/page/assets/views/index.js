// The views, in the order of the navigation. Each is loaded, with its style, when it is first opened.
export const views = [
  { name: "overview", title: "Overview", load: () => import("./overview.js") },
  { name: "graph", title: "Graph", load: () => import("./graph.js") },
  { name: "time", title: "Time", load: () => import("./time.js") },
  { name: "sources", title: "Sources", load: () => import("./sources.js") },
  { name: "sinks", title: "Sinks", load: () => import("./sinks.js") },
  { name: "slots", title: "Slots", load: () => import("./slots.js") },
  { name: "log", title: "Log", load: () => import("./log.js") },
  { name: "changes", title: "Changes", load: () => import("./changes.js") },
  { name: "promises", title: "Promises", load: () => import("./promises.js") },
  { name: "configuration", title: "Configuration", load: () => import("./configuration.js") },
  { name: "checkpoints", title: "Checkpoints", load: () => import("./checkpoints.js") },
];
