// What an operator prints and logs: the last lines, the newest at the end; for those who may see tuples.

import {post} from "../api.js";
import {count, timeOfDay} from "../format.js";
import {Notice} from "../parts/notice.js";
import {SignIn} from "../parts/sign_in.js";
import {useStore} from "../store.js";
import {html, useEffect, useLayoutEffect, useRef, useState} from "../vendor/preact.js";

const EVERY_MS = 1_000;
const MOST = 500;
const NONE = {lines: [], last: 0, asked: false, problem: null};
const LOUD = {WARNING: "behind", ERROR: "bad", CRITICAL: "bad"};

export function Logs({name, rows, part}) {
  const writes = useStore((state) => state.rights?.writes);
  const live = useStore((state) => state.connection.live);
  const row = part === null ? null : rows.find((one) => one.id === part);
  const partition = row && !row.unifierClass && row.partition >= 0 ? row.partition : null;
  const [all, setAll] = useState(NONE);
  const [text, setText] = useState("");
  useEffect(() => {
    if (!writes) return undefined;
    let over = false;
    let timer = null;
    let last = 0;
    setAll(NONE);
    async function turn() {
      let problem = null;
      try {
        const body = {operator: name, after: last, limit: MOST};
        const answer = await post("/log", partition === null ? body : {...body, partition});
        if (over) return;
        last = answer.last;
        setAll((before) => ({lines: [...before.lines, ...answer.lines].slice(-MOST), last, asked: true, problem: null}));
      } catch (failure) {
        problem = failure;
      }
      if (over) return;
      if (problem) setAll((before) => ({...before, problem}));
      if (live) timer = setTimeout(turn, document.hidden ? 10 * EVERY_MS : EVERY_MS);
    }
    turn();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [name, partition, writes, live]);
  if (!writes) return html`<${SignIn} why="Lines of operators are shown to those who may change something: it needs the token." onDone=${() => {}} />`;
  const wanted = text.trim().toLowerCase();
  const shown = wanted ? all.lines.filter((line) => `${line.text} ${line.level} ${line.logger}`.toLowerCase().includes(wanted)) : all.lines;
  return html`${live && all.problem && html`<${Notice} problem=${all.problem} />`}
    ${all.lines.length > 0 && html`<input class="field" type="search" aria-label="Find lines" placeholder="Find lines" value=${text} onInput=${(event) => setText(event.target.value)} />`}
    ${shown.length ? html`<${Tail} lines=${shown} many=${new Set(all.lines.map((line) => line.partition)).size > 1} />`
      : all.asked && html`<p class="operator-empty" role="status">${wanted ? "No line matches." : "It has printed and logged nothing."}</p>`}`;
}

/** The lines; stays at the end while it is looked at, and where it is once one scrolls up. */
function Tail({lines, many}) {
  const box = useRef(null);
  const end = useRef(true);
  useLayoutEffect(() => {
    if (end.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const scrolled = () => {
    const {scrollTop, scrollHeight, clientHeight} = box.current;
    end.current = scrollHeight - scrollTop - clientHeight < 24;
  };
  return html`<div class="operator-log" role="log" aria-label="Lines" aria-live="off" tabindex="0" ref=${box} onScroll=${scrolled}>
    ${lines.map((line) => html`<div key=${line.number} class="operator-log-line" title=${where(line)}>
      ${line.leftOut > 0 && html`<p class="operator-log-gap">${count(line.leftOut)} lines are left out</p>`}
      <time>${timeOfDay(line.at)}</time>${many && line.partition !== null && html`<span class="operator-log-part">${line.partition}</span>`}
      ${line.level && html`<span class=${LOUD[line.level] ?? "muted"}>${line.level}</span>`}
      <span class="operator-log-text">${line.text}</span></div>`)}
  </div>`;
}

function where(line) {
  const window = line.windowId === null ? "" : `, window ${line.windowId}`;
  return `${line.logger || line.source}, ${line.host}:${line.pid}${window}`;
}
