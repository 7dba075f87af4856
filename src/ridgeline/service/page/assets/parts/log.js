// What operators print and log: the last lines, the newest at the end; for those who may see tuples.

import {post} from "../api.js";
import {count, timeOfDay} from "../format.js";
import {useStore} from "../store.js";
import {html, useLayoutEffect, useRef, useState} from "../vendor/preact.js";
import {Notice} from "./notice.js";
import {usePolling} from "./polling.js";
import {SignIn} from "./sign_in.js";

const EVERY_MS = 1_000;
const MOST = 500;
const NONE = {lines: [], asked: false, problem: null};
const LOUD = {WARNING: "behind", ERROR: "bad", CRITICAL: "bad"};
const LEVELS = {"": "any level", WARNING: "warnings and errors", ERROR: "errors"};
const WORSE = {WARNING: ["WARNING", "ERROR", "CRITICAL"], ERROR: ["ERROR", "CRITICAL"]};

/** `operator`, `partition`: those of one; without, the lines of all, to choose from. */
export function LogLines({operator = null, partition = null}) {
  const writes = useStore((state) => state.rights?.writes);
  const over = useStore((state) => state.rights?.readOnly === true);
  const live = useStore((state) => state.connection.live);
  const [all, setAll] = useState(NONE);
  const [text, setText] = useState("");
  const [level, setLevel] = useState("");
  const [of, setOf] = useState("");
  const [region, setRegion] = useState("");
  const asks = writes && !over;
  async function turn(counts, kept) {
    if (!asks) return;
    if (kept.last === undefined) {
      kept.last = 0;
      setAll(NONE);
    }
    try {
      const of = {...(operator !== null && {operator}), ...(partition !== null && {partition})};
      const answer = await post("/log", {after: kept.last, limit: MOST, ...of});
      if (!counts()) return;
      kept.last = answer.last;
      setAll((before) => ({lines: [...before.lines, ...answer.lines].sort((one, other) => one.at - other.at).slice(-MOST), asked: true, problem: null}));
    } catch (problem) {
      if (counts()) setAll((before) => ({...before, problem}));
    }
  }
  usePolling(turn, () => asks && live && EVERY_MS, [operator, partition, asks, live]);
  if (over) return html`<p class="operator-empty" role="status">An event log has no lines of operators: they are in the log file of the run.</p>`;
  if (!writes) return html`<${SignIn} why="Lines of operators are shown to those who may change something: it needs the token." onDone=${() => {}} />`;
  const wanted = text.trim().toLowerCase();
  const shown = all.lines.filter((line) => (!wanted || `${line.text} ${line.level} ${line.logger} ${line.operator}`.toLowerCase().includes(wanted))
    && (!level || WORSE[level].includes(line.level))
    && (!of || line.operator === of) && (!region || line.region === region));
  const chooses = wanted || level || of || region;
  const names = operator === null ? distinct(all.lines.map((line) => line.operator)) : [];
  const regions = distinct(all.lines.map((line) => line.region));
  return html`${live && all.problem && html`<${Notice} problem=${all.problem} />`}
    ${all.lines.length > 0 && html`<div class="log-tools">
      <input class="field" type="search" aria-label="Find lines" placeholder="Find lines" value=${text} onInput=${(event) => setText(event.target.value)} />
      ${regions.length > 1 && html`<${Choice} label="Region" value=${region} onChange=${setRegion} options=${{"": "any region", ...same(regions)}} />`}
      ${names.length > 1 && html`<${Choice} label="Operator" value=${of} onChange=${setOf} options=${{"": "any operator", ...same(names)}} />`}
      <${Choice} label="Level" value=${level} onChange=${setLevel} options=${LEVELS} /></div>`}
    ${shown.length ? html`<${Tail} lines=${shown} named=${operator === null} many=${new Set(all.lines.map((line) => line.partition)).size > 1} />`
      : all.asked && html`<p class="operator-empty" role="status">${chooses ? "No line matches." : "It has printed and logged nothing."}</p>`}`;
}

function distinct(names) {
  return [...new Set(names)].filter(Boolean).sort();
}

function same(names) {
  return Object.fromEntries(names.map((name) => [name, name]));
}

function Choice({label, value, onChange, options}) {
  const keys = ["", ...Object.keys(options).filter(Boolean)];
  return html`<select class="field" aria-label=${label} value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${keys.map((key) => html`<option key=${key} value=${key} selected=${key === value}>${options[key]}</option>`)}</select>`;
}

/** The lines; stays at the end while it is looked at, and where it is once one scrolls up. */
function Tail({lines, many, named}) {
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
      <time>${timeOfDay(line.at)}</time>${line.region && html`<span class="operator-log-part">${line.region}</span>`}${named && line.operator && html`<span class="operator-log-part">${line.operator}</span>`}${many && line.partition !== null && html`<span class="operator-log-part">${line.partition}</span>`}
      ${line.level && html`<span class=${LOUD[line.level] ?? "muted"}>${line.level}</span>`}
      <span class="operator-log-text">${line.text}</span></div>`)}
  </div>`;
}

function where(line) {
  const window = line.windowId === null ? "" : `, window ${line.windowId}`;
  return `${line.logger || line.source}, ${line.host}:${line.pid}${window}`;
}
