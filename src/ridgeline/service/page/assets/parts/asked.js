// Answers of the web service that a view needs beside the live stream, asked for again while it is looked at.
import { useState } from "../vendor/preact.js";
import { get } from "../api.js";
import { store } from "../store.js";
import { usePolling } from "./polling.js";

const NOTHING = { asks: null, answer: null, problem: null };

// {answer, problem, again} of a path. `every`: milliseconds between two questions; 0: once. `key`: asks at once if it changes.
export function useAsked(path, query, { every = 2000, key = "" } = {}) {
  const [state, setState] = useState(NOTHING);
  const said = JSON.stringify(query ?? {});
  const asks = `${path} ${said}`;
  async function turn(counts) {
    const take = (change) => counts() && setState(change);
    try {
      const answer = await get(path, query);
      take({ asks, answer, problem: null });
    } catch (problem) {
      take((before) => ({ asks, answer: before.asks === asks ? before.answer : null, problem }));
    }
  }
  const again = usePolling(turn, () => !store.state.connection.ended && every, [path, said, every, key]);
  // What was answered before is about another place: it is not shown as the answer about this one.
  return { ...(state.asks === asks ? state : NOTHING), again };
}
