// The words for what a window waited for, as the terminal has them (ridgeline/measure/wording/times.py), and their colours.
export const WORDS = {
  offsets: "Spark's offsets",
  log: "Spark's offset log",
  trigger: "Spark's trigger",
  planning: "planning",
  ending: "seeing that inputs had ended",
  retries: "earlier attempts",
  launch: "sending time",
  slot: "waiting for a slot",
  restore: "state restore",
  compute: "compute",
  transfer: "transfer",
  sibling: "siblings",
  state: "state files",
  results: "collecting results",
  stage: "staging",
  commit: "commit",
  queue: "waiting in a queue",
  other: "unexplained",
};

const SORTS = { compute: "compute", transfer: "transfer", restore: "transfer", state: "transfer", results: "transfer", retries: "fault" };

// The class of a step: compute, transfer, fault, or wait for all else.
export function sortOf(what) {
  return SORTS[what] ?? "wait";
}

export function word(what) {
  return WORDS[what] ?? what;
}
