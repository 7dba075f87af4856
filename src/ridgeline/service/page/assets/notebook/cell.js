// The view of an application in the cell of a notebook, for anywidget: the sentence, the graph, one operator.
// `ridgeline/service/notebook/module.py` makes one text of this and all that it imports.

import graphStyle from "../views/graph.css" with {type: "css"};
import pageStyle from "../page.css" with {type: "css"};
import tokens from "../tokens.css" with {type: "css"};
import {timeOfDay} from "../format.js";
import {Canvas} from "../graph/canvas.js";
import {shortName} from "../graph/model.js";
import {Legend, PathStrip} from "../graph/path_strip.js";
import {useGraph} from "../graph/use_graph.js";
import {Figures} from "../operator/figures.js";
import {Said} from "../parts/sentence.js";
import {State} from "../parts/state.js";
import {Mark} from "../parts/theme.js";
import {html, render as draw, useEffect, useMemo, useState} from "../vendor/preact.js";
import cellStyle from "./cell.css" with {type: "css"};
import {Feed} from "./feed.js";
import {followTheme} from "./theme.js";

const [LOWEST, HIGHEST, AROUND] = [170, 440, 100]; // of the picture, in pixels
const OWN_KEYS = new Set(["Enter", " ", "Escape", "+", "=", "-", "0"]);

function useFeed(feed) {
  const [, again] = useState(0);
  useEffect(() => feed.listen(() => again((number) => number + 1)), [feed]);
  return feed;
}

function Cell({feed}) {
  const {state, line} = useFeed(feed);
  const {plan, overview, sentence, name} = state;
  const [params, setParams] = useState({});
  const go = (changes) => setParams((before) => ({...before, ...changes}));
  const link = (about, text) => (about.operator && plan?.operators?.some((one) => one.name === about.operator)
    ? html`<button type="button" class="cell-part" onClick=${() => go({operator: about.operator, part: null})}>${text}</button>`
    : html`<b>${text}</b>`);
  return html`<section class="cell" aria-label=${`Application ${name}`}>
    <header class="cell-head">
      <div class="frame-line"><${Mark} /><h2 class="frame-name">${name}</h2>
        ${overview && html`<${State} state=${sentence?.state ?? "starting"} />`}<span class="frame-space"></span>
        <${Line} ...${{line, overview}} />
        ${state.page && html`<a class="cell-page" href=${state.page} target="_blank" rel="noopener noreferrer">Page</a>`}</div>
      ${overview && html`<${Said} ...${{sentence, link}} />`}
    </header>
    ${plan?.operators?.length ? html`<${Picture} ...${{state, params, go}} />` : html`<p class="empty">Waiting for the plan.</p>`}
  </section>`;
}

/** How new the figures are, in the page's words. */
function Line({line, overview}) {
  if (!overview) return null;
  const at = timeOfDay(overview.at);
  if (line.over) return html`<span class="frame-connection frame-ended">ended, as of ${at}</span>`;
  if (!line.live) return html`<span class="frame-connection stale" role="status">stale since ${at}</span>`;
  return html`<span class="frame-connection">live, ${at}</span>`;
}

function Picture({state, params, go}) {
  const {plan, overview, shown, watermarks} = state;
  const {api, graph, layout, figures, selected, openNode, unfold, fold, pick} = useGraph({plan, overview, shown, watermarks, params, go});
  const height = Math.round(Math.min(HIGHEST, Math.max(LOWEST, layout.height + AROUND)));
  const close = () => go({operator: null, part: null});
  return html`
    ${overview && html`<${PathStrip} known critical=${overview.criticalPath} operators=${overview.operators} selected=${params.operator} pick=${pick} />`}
    <div class="cell-picture graph-view" style=${{height: `${height}px`}}><div class="graph-inside"><div class="graph-main">
      <${Canvas} ...${{graph, layout, figures, selected, api}} gentle onOpen=${openNode} onUnfold=${unfold} onFold=${fold} onClose=${close} />
      ${overview && html`<${Legend} />`}</div></div></div>
    ${params.operator && html`<${Operator} ...${{plan, overview, shown, close}} name=${params.operator} part=${params.part ?? null} />`}`;
}

function Operator({plan, overview, shown, name, part, close}) {
  const operator = plan.operators.find((one) => one.name === name) ?? (plan.modules ?? []).find((one) => one.name === name);
  const rows = useMemo(() => Object.values(overview?.operators ?? {}).filter((row) => row.logicalName === name), [overview, name]);
  if (!operator) return null;
  return html`<aside class="cell-operator" aria-label=${`Operator ${name}`} onKeyDown=${(event) => event.key === "Escape" && close()}>
    <header class="operator-head"><div class="operator-names"><h3>${name}</h3><p title=${operator.class}>${shortName(operator.class)}</p></div>
      <button type="button" class="operator-close" aria-label="Close the operator" title="Close (Escape)" onClick=${close}>✕</button></header>
    ${rows.length > 0 && html`<div class="cell-figures"><${Figures} ...${{name, rows, overview, shown}} part=${part === null ? null : Number(part)} /></div>`}
  </aside>`;
}

const feeds = new Map(); // by what a model is known by: `initialize` and `render` get other objects for the same one

function feedOf(model) {
  const id = model.get("feed_id");
  return feeds.get(id) ?? feeds.set(id, new Feed(model)).get(id);
}

/** Once for each model in a notebook. */
function initialize({model}) {
  const feed = feedOf(model);
  return () => {
    feed.close();
    feeds.delete(model.get("feed_id"));
  };
}

/** Once for each view of a model. What is drawn is in a shadow: neither has styles for the other. */
function render({model, el}) {
  const host = document.createElement("div");
  host.className = "ridgeline-cell";
  host.dataset.lmSuppressShortcuts = "true"; // the keys of the graph are not those of Jupyter
  host.addEventListener("keydown", keep);
  const shadow = host.attachShadow({mode: "open"});
  shadow.adoptedStyleSheets = [tokens, pageStyle, graphStyle, cellStyle];
  el.append(host);
  const forget = followTheme(host);
  draw(html`<${Cell} feed=${feedOf(model)} />`, shadow);
  return () => {
    forget();
    draw(null, shadow);
    host.remove();
  };
}

function keep(event) {
  if (!event.ctrlKey && !event.metaKey && (OWN_KEYS.has(event.key) || event.key.startsWith("Arrow"))) event.stopPropagation();
}

export default {initialize, render};
