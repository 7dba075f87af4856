// Whole stacks of the last minute as a flame graph: callers on top, as wide as their part of the operator's time.
// One that is clicked, or entered by the keyboard, takes the whole width. The same is there as a table.

import {duration, percent} from "../format.js";
import {html, useEffect, useMemo, useRef, useState} from "../vendor/preact.js";
import {useAnswer} from "./asking.js";

const NARROWEST = 0.004; // of the width; what is narrower is in the table
const LABELLED = 0.06;
const MOST_ROWS = 30;
const ALL = "";

export function Flame({name}) {
  const {answer} = useAnswer("/stacks", {operator: name}, 2_000);
  const found = answer?.operators?.find((one) => one.operator === name);
  const tree = useMemo(() => found && treeOf(found), [answer]);
  if (!tree || !tree.children.length) return null;
  return html`<section class="operator-flame"><h3>Stacks, of the last ${duration(answer.seconds)}</h3>
    <${Frames} tree=${tree} />
    <details><summary>As a table</summary><${Table} tree=${tree} /></details></section>`;
}

/** Functions with their place: `at` and `width` as parts of the operator's time, `level`, `children`, a `key` that stays. */
export function treeOf({operator, seconds, functions}) {
  const root = {key: ALL, label: `all of ${operator}`, kind: "engine", at: 0, width: 1, level: 0, seconds, ownSeconds: 0, children: [], caller: null, file: "", line: 0};
  const nodes = [];
  const next = new Map([[root, 0]]);
  for (const one of functions) {
    const caller = nodes[one.caller] ?? root;
    const at = next.get(caller);
    const width = Math.max(0, Math.min(one.share, caller.at + caller.width - at));
    const node = {
      key: `${caller.key}\n${one.file}:${one.line} ${one.function}`, label: one.function, kind: one.kind, at, width, level: caller.level + 1,
      seconds: one.seconds, ownSeconds: one.ownSeconds, children: [], caller, file: one.file, line: one.line,
    };
    nodes.push(node);
    caller.children.push(node);
    next.set(caller, at + width);
    next.set(node, at);
  }
  return root;
}

export function all(node) {
  return [node, ...node.children.flatMap(all)];
}

/** `tree`: of `treeOf`. `kindOf(node)`: the class of its colour; `extra(node)`: more words about it. */
export function Frames({tree, kindOf = (node) => node.kind, extra = () => "", label = "Stacks"}) {
  const [zoomed, setZoomed] = useState(ALL);
  const [chosen, setChosen] = useState(ALL);
  const box = useRef(null);
  const nodes = useMemo(() => all(tree), [tree]);
  const whole = nodes.find((one) => one.key === zoomed) ?? tree;
  const callers = new Set();
  for (let one = whole.caller; one; one = one.caller) callers.add(one);
  const inside = (one) => one.at >= whole.at - 1e-9 && one.at + one.width <= whole.at + whole.width + 1e-9;
  const shown = nodes.filter((one) => callers.has(one) || (one.level >= whole.level && inside(one) && one.width / whole.width >= NARROWEST));
  const current = shown.find((one) => one.key === chosen) ?? whole;
  const prefix = useMemo(() => `operator-flame-${number++}`, []);
  const id = (one) => `${prefix}-${nodes.indexOf(one)}`;
  const said = (one) => words(one, tree) + extra(one);
  const place = (one) => (callers.has(one) ? [0, 1] : [(one.at - whole.at) / whole.width, one.width / whole.width]);
  useEffect(() => {
    if (chosen === ALL) box.current.scrollTop = 0;
    else document.getElementById(id(current))?.scrollIntoView({block: "nearest"});
  }, [chosen]);
  const press = (event) => {
    const kin = (current.caller?.children ?? []).filter((one) => shown.includes(one));
    const go = {
      ArrowUp: current.caller, ArrowDown: current.children.find((one) => shown.includes(one)),
      ArrowLeft: kin[kin.indexOf(current) - 1], ArrowRight: kin[kin.indexOf(current) + 1], Home: tree,
    };
    if (event.key in go) {
      if (go[event.key]) setChosen(go[event.key].key);
    } else if (event.key === "Enter" || event.key === " ") {
      setZoomed(current.key === zoomed ? ALL : current.key);
    } else return;
    event.preventDefault();
  };
  const rows = Math.max(...shown.map((one) => one.level)) + 1;
  return html`<div class="operator-flame-box" role="tree" tabindex="0" aria-label=${`${label}, callers first; Enter gives one the whole width`}
      aria-activedescendant=${id(current)} ref=${box} onKeyDown=${press}>
      <div class="operator-flame-rows" role="none" style=${{height: `${rows * 21}px`}}>
      ${shown.map((one) => {
        const [at, width] = place(one);
        return html`<div key=${one.key} id=${id(one)} role="treeitem" aria-level=${one.level + 1} aria-selected=${one === current}
          aria-label=${said(one)} title=${said(one)} class=${`operator-flame-frame operator-flame-${kindOf(one)}`}
          style=${{left: `${at * 100}%`, width: `${width * 100}%`, top: `${one.level * 21}px`}}
          onClick=${() => (setChosen(one.key), setZoomed(one.key === zoomed ? ALL : one.key))}>${width >= LABELLED ? one.label : ""}</div>`;
      })}</div></div>
    <p class="operator-note" role="status">${said(current)}</p>`;
}

let number = 0; // of flame graphs on the page


function words(one, tree) {
  const where = one.file ? `, ${one.file.slice(one.file.lastIndexOf("/") + 1)}:${one.line}` : "";
  const own = one.ownSeconds > 0 ? `, ${percent(one.ownSeconds / tree.seconds)} in itself` : "";
  return `${one.label}${where}: ${percent(one.seconds / tree.seconds)}${own}`;
}

/** Functions with the most time in themselves, wherever they are called from. */
function Table({tree}) {
  const sums = new Map();
  for (const one of all(tree).slice(1)) {
    const key = `${one.file}:${one.line} ${one.label}`;
    const sum = sums.get(key) ?? {...one, key, ownSeconds: 0, seconds: 0};
    sum.ownSeconds += one.ownSeconds;
    if (!calls(one.caller, one)) sum.seconds += one.seconds; // within itself it was counted already
    sums.set(key, sum);
  }
  const rows = [...sums.values()].sort((one, other) => other.ownSeconds - one.ownSeconds).slice(0, MOST_ROWS);
  return html`<table class="operator-table"><caption>Functions, of the operator's time</caption>
    <thead><tr><th scope="col">function</th><th scope="col" class="operator-number">in itself</th><th scope="col" class="operator-number">with what it calls</th></tr></thead>
    <tbody>${rows.map((one) => html`<tr key=${one.key}><td title=${`${one.file}:${one.line}`}><code>${one.label}</code><small class="operator-where">${one.file.slice(one.file.lastIndexOf("/") + 1)}:${one.line}</small></td>
      <td class="operator-number">${percent(one.ownSeconds / tree.seconds)}</td><td class="operator-number">${percent(one.seconds / tree.seconds)}</td></tr>`)}</tbody></table>`;
}

function calls(caller, one) {
  for (let at = caller; at; at = at.caller) if (at.label === one.label && at.file === one.file && at.line === one.line) return true;
  return false;
}
