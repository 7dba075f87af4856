// Asks again and again while it is looked at.
import { useEffect, useRef } from "../vendor/preact.js";

// `turn(counts, kept)`: asks once. `counts()`: whether its answer still counts. `kept`: what it keeps for the next turn.
// `every(kept)`: milliseconds to the next turn, ten times as many while the page is hidden; false or 0: no more turns.
// `keys`: as of `useEffect`. Gives a function that asks at once.
export function usePolling(turn, every, keys) {
  const again = useRef();
  useEffect(() => {
    const kept = {};
    let timer = null;
    let last = 0; // the answer to the last question counts, whatever comes later
    async function next() {
      clearTimeout(timer);
      const own = ++last;
      await turn(() => own === last, kept);
      const wait = own === last && every(kept);
      if (wait) timer = setTimeout(next, document.hidden ? 10 * wait : wait);
    }
    const seen = () => !document.hidden && every(kept) && next();
    document.addEventListener("visibilitychange", seen);
    again.current = next;
    next();
    return () => {
      document.removeEventListener("visibilitychange", seen);
      last = again.current = null;
      clearTimeout(timer);
    };
  }, keys);
  return () => again.current?.();
}
