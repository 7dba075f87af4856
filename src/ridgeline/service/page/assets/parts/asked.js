// Answers of the web service that a view needs beside the live stream, asked for again while it is looked at.
import { useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "../api.js";
import { store } from "../store.js";

// {answer, problem, again} of a path. `every`: milliseconds between two questions; 0: once. `key`: asks at once if it changes.
export function useAsked(path, query, { every = 2000, key = "" } = {}) {
  const [state, setState] = useState({ answer: null, problem: null });
  const ask = useRef();
  const said = JSON.stringify(query ?? {});
  useEffect(() => {
    let timer = null;
    let over = false;
    async function turn() {
      clearTimeout(timer);
      try {
        const answer = await get(path, query);
        if (!over) setState({ answer, problem: null });
      } catch (problem) {
        if (!over) setState((before) => ({ answer: before.answer, problem }));
      }
      if (!over && every && !store.state.connection.ended) timer = setTimeout(turn, document.hidden ? 10 * every : every);
    }
    ask.current = turn;
    turn();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [path, said, every, key]);
  return { ...state, again: () => ask.current?.() };
}
