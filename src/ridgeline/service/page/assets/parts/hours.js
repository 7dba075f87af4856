// The last hours, step by step: asked for once, then only what is new.
import { html, useState } from "../vendor/preact.js";
import { get } from "../api.js";
import { href, useRoute } from "../router.js";
import { useStore } from "../store.js";
import { usePolling } from "./polling.js";

// How far back charts go: by the address parameter `range`.
const RANGES = { "15min": ["15 min", 900], "2h": ["2 h", 7_200], "24h": ["24 h", 86_400] };
const FIRST = "15min";
const NOTHING = { asks: null, rows: [], step: 1, problem: null };

export function useRange() {
  const { params } = useRoute();
  const name = Object.hasOwn(RANGES, params.range ?? "") ? params.range : FIRST;
  return { name, seconds: RANGES[name][1] };
}

export function Ranges() {
  const { name } = useRange();
  return html`<nav class="ranges" aria-label="How far back">
    ${Object.entries(RANGES).map(([one, [text]]) => html`<a key=${one} href=${href({ range: one === FIRST ? null : one })} aria-current=${one === name ? "true" : null}>${text}</a>`)}
  </nav>`;
}

// {rows, step, problem} of a path that has steps, the last `seconds` of them.
export function useHours(path, seconds) {
  const live = useStore((state) => state.connection.live);
  const [state, setState] = useState(NOTHING);
  const asks = `${path} ${seconds}`;
  async function turn(counts, kept) {
    const { rows = [], step = null } = kept;
    const last = rows.at(-1);
    const from = last ? Math.max(0, Math.floor(last.at - step)) : -seconds;
    try {
      const answer = await get(path, { from, step });
      if (!counts()) return;
      [kept.rows, kept.step] = joined(rows, step, last ? from : -Infinity, answer, seconds);
      setState({ asks, rows: kept.rows, step: kept.step ?? answer.step, problem: null });
    } catch (problem) {
      if (counts()) setState((before) => ({ ...(before.asks === asks ? before : NOTHING), asks, problem }));
    }
  }
  usePolling(turn, ({ step }) => live && Math.min(15_000, Math.max(2_000, 500 * (step ?? 1))), [asks, live]);
  return state.asks === asks ? state : NOTHING;
}

// The steps that are known, with those of an answer that are later than `from`. Where the clock was set back, or steps
// of this length are not kept so far back any more, all are asked for again: the second value is null.
export function joined(rows, step, from, answer, seconds) {
  const last = rows.at(-1);
  const newest = answer.steps.at(-1);
  if (last && (answer.step !== step || !newest || newest.at < last.at)) return newest ? [[], null] : [rows, step];
  const all = [...rows.filter((row) => row.at <= from), ...answer.steps].filter((row) => row.at > (newest?.at ?? 0) - seconds);
  const short = answer.keptSeconds < seconds && all.length && newest.at - all[0].at > answer.keptSeconds;
  return last && short ? [[], null] : [all, answer.step];
}
