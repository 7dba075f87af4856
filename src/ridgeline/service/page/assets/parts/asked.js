// Answers of the web service that a view needs beside the live stream, asked for again while it is looked at.
import { useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "../api.js";
import { store } from "../store.js";

const NOTHING = { asks: null, answer: null, problem: null };

// {answer, problem, again} of a path. `every`: milliseconds between two questions; 0: once. `key`: asks at once if it changes.
export function useAsked(path, query, { every = 2000, key = "" } = {}) {
  const [state, setState] = useState(NOTHING);
  const ask = useRef();
  const said = JSON.stringify(query ?? {});
  const asks = `${path} ${said}`;
  useEffect(() => {
    let timer = null;
    let last = 0; // the answer to the last question counts, whatever comes later
    const repeats = () => every && !store.state.connection.ended;
    async function turn() {
      clearTimeout(timer);
      const own = ++last;
      const take = (change) => own === last && setState(change);
      try {
        const answer = await get(path, query);
        take({ asks, answer, problem: null });
      } catch (problem) {
        take((before) => ({ asks, answer: before.asks === asks ? before.answer : null, problem }));
      }
      if (own === last && repeats()) timer = setTimeout(turn, document.hidden ? 10 * every : every);
    }
    const seen = () => !document.hidden && repeats() && turn();
    document.addEventListener("visibilitychange", seen);
    ask.current = turn;
    turn();
    return () => {
      document.removeEventListener("visibilitychange", seen);
      last = ask.current = null;
      clearTimeout(timer);
    };
  }, [path, said, every, key]);
  // What was answered before is about another place: it is not shown as the answer about this one.
  return { ...(state.asks === asks ? state : NOTHING), again: () => ask.current?.() };
}
