// The queues between regions. Their writers are outputs that no reader of the application's results sees.
import { useStore } from "../store.js";

let known = { text: "", names: new Set() };

// The names of the operators that write to queues.
export function useQueues() {
  return useStore((state) => writers(state.plan));
}

// The same set for as long as the names are the same.
export function writers(plan) {
  const text = (plan?.queues ?? []).map((one) => one.from).join("\n");
  if (text !== known.text) known = { text, names: new Set(text ? text.split("\n") : []) };
  return known.names;
}
