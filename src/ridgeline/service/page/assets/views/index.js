// The views, in the order of the navigation. Each is loaded, with its style, when it is first opened.
// `runs`: it needs an application that runs.
const views = [
  { name: "overview", title: "Overview", load: () => import("./overview.js") },
  { name: "graph", title: "Graph", load: () => import("./graph.js") },
  { name: "time", title: "Time", load: () => import("./time.js") },
  { name: "sources", title: "Sources", load: () => import("./sources.js") },
  { name: "sinks", title: "Sinks", load: () => import("./sinks.js") },
  { name: "slots", title: "Slots", load: () => import("./slots.js") },
  { name: "log", title: "Log", load: () => import("./log.js") },
  { name: "changes", title: "Changes", load: () => import("./changes.js") },
  { name: "promises", title: "Promises", load: () => import("./promises.js") },
  { name: "queries", title: "Queries", load: () => import("./queries.js"), runs: true },
  { name: "configuration", title: "Configuration", load: () => import("./configuration.js") },
  { name: "checkpoints", title: "Checkpoints", load: () => import("./checkpoints.js") },
];

// The views of an application, or with `readOnly` of a run that is read from its log.
export function viewsOf(readOnly) {
  return views.filter((view) => !(readOnly && view.runs));
}
