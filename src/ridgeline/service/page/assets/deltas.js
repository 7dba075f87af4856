// The state that an application sends: the whole once, then what has changed. Pure.

// JSON merge patch (RFC 7396). What does not change stays the same object.
export function merge(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const merged = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else if (Object.hasOwn(merged, name)) merged[name] = merge(merged[name], value);
    else own(merged, name, merge(undefined, value));
  }
  return merged;
}

// A new member, whatever its name: to assign `__proto__` would change what the object inherits from.
function own(object, name, value) {
  Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

// What views show of the newest window; null if there is nothing yet.
export function ofOverview(overview) {
  if (!overview) return null;
  const { windowId, latency, criticalPath, window } = overview;
  return { windowId, latency, criticalPath, window };
}
