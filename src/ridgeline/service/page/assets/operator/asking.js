// Ask the service again and again, for as long as a part of the page is there.

import {get} from "../api.js";
import {useStore} from "../store.js";
import {useCallback, useEffect, useState} from "../vendor/preact.js";

/** {answer, problem, again}: the newest answer of a path. `every` in ms; 0: once, and for each `version`. */
export function useAnswer(path, query = {}, every = 2_000, version = 0) {
  const [state, setState] = useState({answer: null, problem: null});
  const [turn, setTurn] = useState(0);
  const live = useStore((one) => one.connection.live);
  useEffect(() => {
    let over = false;
    let timer = 0;
    const ask = async () => {
      try {
        const answer = await get(path, query);
        if (!over) setState({answer, problem: null});
      } catch (problem) {
        if (!over) setState((before) => ({...before, problem}));
      }
      if (!over && every && live) timer = setTimeout(ask, every);
    };
    ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [path, JSON.stringify(query), every, live, turn, version]);
  return {...state, again: useCallback(() => setTurn((one) => one + 1), [])};
}
