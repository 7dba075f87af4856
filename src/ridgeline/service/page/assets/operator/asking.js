// Answers that a part of the panel needs while the line is there.

import {useAsked} from "../parts/asked.js";
import {useStore} from "../store.js";

/** As `useAsked`; asked again when the line is back. `every` in ms; 0: once, and for each `version`. */
export function useAnswer(path, query = {}, every = 2_000, version = 0) {
  const live = useStore((state) => state.connection.live);
  return useAsked(path, query, {every: live ? every : 0, key: `${version} ${live}`});
}
