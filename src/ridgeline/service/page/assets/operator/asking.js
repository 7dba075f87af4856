// Ask the service again and again, for as long as a part of the page is there.

import {get} from "../api.js";
import {useStore} from "../store.js";
import {useCallback, useEffect, useState} from "../vendor/preact.js";

const NOTHING = {asks: null, answer: null, problem: null};

/** {answer, problem, again}: the newest answer of a path. `every` in ms; 0: once, and for each `version`. */
export function useAnswer(path, query = {}, every = 2_000, version = 0) {
  const [state, setState] = useState(NOTHING);
  const asks = `${path} ${JSON.stringify(query)}`;
  const [turn, setTurn] = useState(0);
  const live = useStore((one) => one.connection.live);
  useEffect(() => {
    let over = false;
    let timer = 0;
    const ask = async () => {
      try {
        const answer = await get(path, query);
        if (!over) setState({asks, answer, problem: null});
      } catch (problem) {
        if (!over) setState((before) => ({asks, answer: before.asks === asks ? before.answer : null, problem}));
      }
      if (!over && every && live) timer = setTimeout(ask, every);
    };
    ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [asks, every, live, turn, version]);
  return {...(state.asks === asks ? state : NOTHING), again: useCallback(() => setTurn((one) => one + 1), [])};
}
