// The figures of the time view: pure functions of windows and marks.

// The median of numbers; null without any.
export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((first, second) => first - second);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The value that a share of numbers stays within, such as 0.99 of them.
export function quantile(values, share) {
  if (!values.length) return null;
  const sorted = [...values].sort((first, second) => first - second);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

export const FEWEST = 8; // windows on each side of a turn
const RATIO = 1.5; // of the medians

// Where latency turned last: the split of the windows into two levels that explains most of its scatter, if one level
// is at least half as high again as the other. {index, window, before, since}; null if it is steady.
export function turn(windows) {
  let found = null;
  let from = 0;
  // A later turn within the last level says more of now: look again there.
  for (let round = 0; round < 4; round += 1) {
    const next = split(windows, from);
    if (!next) break;
    found = next;
    from = next.index;
  }
  return found;
}

function split(windows, from) {
  const logs = windows.slice(from).map((one) => Math.log(Math.max(0.05, one.latencyMs)));
  const count = logs.length;
  if (count < 2 * FEWEST) return null;
  const total = logs.reduce((sum, value) => sum + value, 0);
  let left = 0;
  let best = 0;
  let at = -1;
  for (let index = 1; index <= count - FEWEST; index += 1) {
    left += logs[index - 1];
    if (index < FEWEST) continue;
    const difference = left / index - (total - left) / (count - index);
    const explained = (difference * difference * index * (count - index)) / count;
    if (explained > best) [best, at] = [explained, index];
  }
  if (at < 0) return null;
  const latencies = (begin, end) => windows.slice(begin, end).map((one) => one.latencyMs);
  const before = median(latencies(from, from + at));
  const since = median(latencies(from + at, windows.length));
  const ratio = since / before;
  if (!(ratio >= RATIO || ratio <= 1 / RATIO)) return null;
  return { index: from + at, window: windows[from + at], before, since };
}

// The window in or before which a mark is; its index, -1 if it is before all.
export function indexOf(windows, mark) {
  if (mark.windowId != null) {
    const exact = windows.findIndex((one) => one.windowId === mark.windowId && (mark.region == null || one.region === mark.region));
    if (exact >= 0) return exact;
  }
  if (!windows.length || mark.at < windows[0].triggeredAt) return -1;
  let low = 0;
  let high = windows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (windows[middle].committedAt >= mark.at) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The median latency of up to 100 windows before a window, and of those from it on; null where there are too few.
// `from`, `to`: the windows of the changes before and after it, beyond which others count.
export function beforeAndAfter(windows, windowId, { region, from = -Infinity, to = Infinity, most = 100 } = {}) {
  const own = region == null ? windows : windows.filter((one) => one.region === region);
  const at = own.findIndex((one) => one.windowId >= windowId);
  if (at < 0) return { before: null, after: null };
  const before = own.slice(Math.max(0, at - most), at).filter((one) => one.windowId >= from);
  const after = own.slice(at, at + most).filter((one) => one.windowId < to);
  const few = 5;
  return {
    before: before.length < few ? null : median(before.map((one) => one.latencyMs)),
    after: after.length < few ? null : median(after.map((one) => one.latencyMs)),
  };
}
