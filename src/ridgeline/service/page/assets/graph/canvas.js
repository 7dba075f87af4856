// The picture: cards, edges, frames; panned, zoomed, and moved through by the keyboard.

import {duration} from "../format.js";
import {html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState} from "../vendor/preact.js";
import {FullCard, LABEL, SmallCard, short, spoken} from "./card.js";
import {edgeKey} from "./layout.js";
import {neighbours} from "./model.js";
import {
  LEAST_ZOOM, beside, cardSize, centred, finder, fit, frameBoxes, labels, level, line, middle, near, placed, textWidth, thickness, zoomed,
} from "./scene.js";

const INSIDE = -150;
const READABLE = 0.5;
const FULL_SIZE = 0.82;
const WHEEL = 0.0016;
const BESIDE_LABEL = 12; // of an edge, beside its label

/** `api.current` gets {fit, zoom}. `onOpen(node)`, `onUnfold(node)`, `onFold(frame)`, `onClose()`. */
export function Canvas({graph, layout, figures, selected, api, onOpen, onUnfold, onFold, onClose}) {
  const box = useRef(null);
  const scene = useRef(null);
  const camera = useRef(null);
  const anchor = useRef(null); // the node that was unfolded or folded: it stays where it is
  const touched = useRef(false); // panned or zoomed by hand
  const [size, setSize] = useState(null);
  const [, redraw] = useState(0);
  const [focus, setFocus] = useState(null);
  const frame = useRef(0);
  const later = useCallback(() => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      redraw((number) => number + 1);
    });
  }, []);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => {
      const {clientWidth: width, clientHeight: height} = box.current;
      if (!width || !height) return; // it is hidden: what is looked at stays where it was
      setSize((before) => (before?.width === width && before?.height === height ? before : {width, height}));
    });
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame.current);
    };
  }, []);
  keepStill({graph, layout, size, camera, anchor, touched, selected, slowest: slowestOf(figures)});
  const around = useMemo(() => neighbours(graph), [graph]);
  useEffect(() => {
    api.current = size && {
      fit: () => {
        touched.current = leastOf(layout, size) !== LEAST_ZOOM; // as by itself, unless that would be larger
        camera.current = fit(layout, size);
        later();
      },
      zoom: (factor) => {
        touched.current = true;
        camera.current = zoomed(camera.current, factor, {x: size.width / 2, y: size.height / 2});
        later();
      },
      zoomLevel: () => camera.current?.zoom,
    };
  });
  useEffect(() => { // chosen elsewhere: by a link, by the search
    const place = selected && size && layout.nodes.get(selected);
    if (place && !near({x: place.x * camera.current.zoom, y: place.y * camera.current.zoom}, camera.current, size, INSIDE)) {
      camera.current = centred(layout, selected, size, camera.current.zoom);
      later();
    }
  }, [selected, Boolean(size)]);
  const ready = size && camera.current;
  const zoom = ready ? camera.current.zoom : 1;
  const places = useMemo(() => placed(layout, zoom), [layout, zoom]);
  const find = useMemo(() => finder(graph, layout), [graph, layout]);
  const lineOf = useMemo(() => onceEach((edge) => line(edge, layout, places, zoom)), [graph, places]);
  const pointers = usePointers({box, scene, camera, touched, size, later});
  const hold = (node, act) => {
    anchor.current = node.id;
    act(node);
  };
  const current = focus && graph.nodes.has(focus) ? focus : selected && graph.nodes.has(selected) ? selected
    : figures.path.nodes[0] ?? graph.nodes.keys().next().value;
  const reach = (id) => {
    if (!id) return;
    setFocus(id);
    const place = places.get(id);
    if (place && !near(place, camera.current, size, INSIDE)) {
      camera.current = centred(layout, id, size, camera.current.zoom);
      later();
    }
    requestAnimationFrame(() => box.current?.querySelector(`[data-node="${CSS.escape(id)}"]`)?.focus({preventScroll: true}));
  };
  const unfoldOrFold = (node) => {
    const frame = graph.frames.find((one) => one.nodes.includes(node.id));
    if (unfolds(node, figures.nodes.get(node.id))) hold(node, onUnfold);
    else if (frame) hold(node, () => onFold(frame));
  };
  const onKey = (event) => {
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      unfoldOrFold(graph.nodes.get(current));
    } else if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      reach(beside(current, event.key, graph, layout, around));
    } else if ((event.key === "Enter" || event.key === " ") && event.target.dataset?.node) {
      event.preventDefault();
      onOpen(graph.nodes.get(event.target.dataset.node));
    } else if (event.key === "Escape") onClose();
    else if (event.key === "+" || event.key === "=") api.current.zoom(1.25);
    else if (event.key === "-") api.current.zoom(0.8);
    else if (event.key === "0") api.current.fit();
  };
  return html`
    <div class="graph-canvas" ref=${box} onKeyDown=${onKey} ...${pointers}>
      ${ready && html`<svg class="graph-svg" width=${size.width} height=${size.height} role="group"
          aria-label="Operators and streams; the arrow keys move along streams, Enter opens an operator, Shift and Enter unfold or fold it">
        <g class="graph-scene" ref=${scene} transform=${`translate(${camera.current.x} ${camera.current.y})`}>
          <${Scene} ...${{graph, layout, figures, selected, places, find, lineOf, zoom, size, current, setFocus}}
            camera=${camera.current} onOpen=${onOpen} onUnfold=${(node) => hold(node, onUnfold)}
            onFold=${(one) => hold(graph.nodes.get(one.nodes[0]), () => onFold(one))} />
        </g></svg>
        <span class="graph-zooms">
          <button type="button" class="button" aria-label="Zoom out" title="Zoom out (-)" onClick=${() => api.current.zoom(0.8)}>−</button>
          <button type="button" class="button" aria-label="Fit all of it" title="Show all of it (0)" onClick=${() => api.current.fit()}>Fit</button>
          <button type="button" class="button" aria-label="Zoom in" title="Zoom in (+)" onClick=${() => api.current.zoom(1.25)}>+</button>
        </span>`}
    </div>`;
}

/** A function that is asked once for each value: only what is on the screen is ever made. */
function onceEach(make) {
  const known = new Map();
  return (value) => known.get(value) ?? known.set(value, make(value)).get(value);
}

/** All of it where its names can be read then; else at full size, from the left. */
function leastOf(layout, size) {
  return fit(layout, size).zoom >= READABLE ? LEAST_ZOOM : FULL_SIZE;
}

/** Where nothing was moved, show all, or the slowest of the path; else keep what is looked at where it was. */
function keepStill({graph, layout, size, camera, anchor, touched, selected, slowest}) {
  const before = useRef(null);
  if (!size) return;
  const old = before.current?.layout;
  const fresh = () => {
    camera.current = fit(layout, size, leastOf(layout, size));
    const wanted = [selected, slowest].find((id) => id && layout.nodes.has(id));
    if (wanted) camera.current = shownFully(camera.current, layout, wanted, size);
  };
  const held = anchor.current;
  if (!camera.current || (!touched.current && before.current.size !== size)) fresh();
  else if (old !== layout) {
    const same = (id) => id && old.nodes.has(id) && layout.nodes.has(id);
    const {zoom} = camera.current;
    if (!touched.current && (!held || leastOf(layout, size) === LEAST_ZOOM)) fresh();
    else if (held && old.nodes.has(held) && !layout.nodes.has(held)) {
      const next = [...graph.nodes.keys()].find((id) => !old.nodes.has(id) && layout.nodes.has(id));
      move(camera, old.nodes.get(held), next ? layout.nodes.get(next) : null, zoom);
    } else {
      const id = [held, selected, slowest, ...old.nodes.keys()].find(same);
      if (id) move(camera, old.nodes.get(id), layout.nodes.get(id), zoom);
    }
  }
  before.current = {layout, size};
}

/** The node of the critical path that takes longest. */
function slowestOf({path, nodes}) {
  const own = (id) => nodes.get(id)?.ownMs ?? 0;
  return path.nodes.reduce((one, other) => (one === null || own(other) > own(one) ? other : one), null);
}

function move(camera, from, to, zoom) {
  if (from && to) camera.current = {zoom, x: camera.current.x + (from.x - to.x) * zoom, y: camera.current.y + (from.y - to.y) * zoom};
}

function shownFully(camera, layout, id, size) {
  const place = layout.nodes.get(id);
  const at = {x: place.x * camera.zoom + camera.x, y: place.y * camera.zoom + camera.y};
  const inside = at.x > 120 && at.x < size.width - 120 && at.y > 60 && at.y < size.height - 60;
  return inside ? camera : centred(layout, id, size, camera.zoom);
}

function Scene({
  graph, layout, figures, selected, places, find, lineOf, zoom, size, camera, current, setFocus, onOpen, onUnfold, onFold,
}) {
  const lod = level(zoom);
  const card = cardSize(zoom);
  const {path} = figures;
  const {nodes: visible, edges} = find(camera, size);
  const onPath = edges.filter((edge) => path.edges.has(edgeKey(edge)));
  const boxes = frameBoxes(graph.frames, places, zoom);
  return html`
    ${boxes.map((one) => html`<${Frame} key=${`${one.kind} ${one.id}`} box=${one} named=${lod !== "dot"} onFold=${onFold} />`)}
    <g class="graph-edges" aria-hidden="true">
      ${lod === "dot" ? html`<path class="graph-edge graph-edge-thin" d=${edges.map((edge) => lineOf(edge)).join("")} />`
        : edges.map((edge) => html`<path key=${edgeKey(edge)} class=${edgeClass(edge, selected)} d=${lineOf(edge)}
            stroke-width=${thickness(figures.edges.get(edgeKey(edge)))} />`)}
      ${onPath.map((edge) => {
        const width = lod === "dot" ? 2.5 : Math.max(2.5, thickness(figures.edges.get(edgeKey(edge))));
        return html`<g key=${`path ${edgeKey(edge)}`}>
          <path class=${isQueue(edge) ? "graph-path graph-queue" : "graph-path"} d=${lineOf(edge)} stroke-width=${width} />
          <path class="graph-flow" d=${lineOf(edge)} stroke-width=${Math.max(1.5, width * 0.5)} /></g>`;
      })}
      ${lod === "full" && rateLabels(edges, figures, layout, places, zoom).map(({key, x, y, text}) => html`
        <text key=${key} class="graph-rate" x=${x} y=${y}>${text}</text>`)}
    </g>
    ${lod === "dot" && html`<${Dots} ...${{visible, places, card, figures}} />`}
    ${(lod === "dot" ? dotCards(visible, selected, current, path) : visible).map((node) => html`<${Card} key=${node.id}
        node=${node} place=${places.get(node.id)} card=${card} lod=${lod} figures=${figures.nodes.get(node.id)}
        most=${figures.most} onPath=${path.on.has(node.id)} selected=${selected === node.id}
        current=${current === node.id} ...${{setFocus, onOpen, onUnfold}} />`)}
    ${lod === "dot" && labels(wanted(graph, selected, current, path), places, zoom, camera, size).map((label) => html`
        <text key=${`label ${label.id}`} class=${path.on.has(label.id) ? "graph-label graph-label-path" : "graph-label"}
          x=${label.x} y=${label.y}>${label.text}</text>`)}`;
}

function edgeClass(edge, selected) {
  const near = selected && (edge.from === selected || edge.to === selected) ? " graph-edge-near" : "";
  return `graph-edge${near}${isQueue(edge) ? " graph-queue" : ""}`;
}

/** A durable queue between two regions. */
function isQueue(edge) {
  return edge.streams.some((stream) => stream.queue);
}

/** What waits in the queue that an edge is: `749 wait 2.5 s`; null for a stream. */
function waiting(edge, figures) {
  const stream = edge.streams.find((one) => one.queue && one.id === null);
  const queue = stream && figures.queues.get(stream.name);
  if (!queue) return null;
  return queue.waits ? `${short(queue.waits)} wait, ${duration(queue.seconds)}` : "nothing waits";
}

function wanted(graph, selected, current, path) {
  const ids = new Set([selected, ...path.nodes, current].filter((id) => id && graph.nodes.has(id)));
  return [...ids].map((id) => {
    const text = graph.nodes.get(id).label;
    return {id, text, width: textWidth(text, LABEL)};
  });
}

/** At the smallest size only these are drawn, and can be reached, one by one; the others are places. */
function dotCards(visible, selected, current, path) {
  return visible.filter((node) => node.id === selected || node.id === current || path.on.has(node.id));
}

function Dots({visible, places, card, figures}) {
  const kinds = {plain: "", bad: "", warn: ""};
  for (const node of visible) {
    const {x, y} = places.get(node.id);
    const own = figures.nodes.get(node.id);
    const kind = own?.failures || own?.silent ? "bad" : own?.errors || own?.late ? "warn" : "plain";
    kinds[kind] += `M${Math.round(x - card.width / 2)} ${Math.round(y - card.height / 2)}h${Math.round(card.width)}v${Math.round(card.height)}h-${Math.round(card.width)}z`;
  }
  return html`${Object.entries(kinds).map(([kind, d]) => d && html`<path key=${kind} class=${`graph-dots graph-dots-${kind}`} d=${d} />`)}`;
}

function Card({node, place, card, lod, figures, most, onPath, selected, current, setFocus, onOpen, onUnfold}) {
  const classes = ["graph-card", `graph-card-${node.kind}`, onPath && "graph-on-path", selected && "graph-selected"].filter(Boolean).join(" ");
  const more = unfolds(node, figures);
  const [x, y] = [Math.round(place.x - card.width / 2), Math.round(place.y - card.height / 2)];
  return html`<g transform=${`translate(${x} ${y})`}>
    <g class=${classes} data-node=${node.id} role="button" tabindex=${current ? 0 : -1} aria-label=${spoken(node, figures, onPath)}
      aria-pressed=${selected} onFocus=${() => setFocus(node.id)} onClick=${() => onOpen(node)}
      onDblClick=${() => more && onUnfold(node)}>
      <title>${node.label} (${node.className})</title>
      ${node.kind === "module" && lod !== "dot" && html`<rect class="graph-behind" x="4" y="4" width=${card.width} height=${card.height} rx="7" />`}
      <rect class="graph-box" width=${card.width} height=${card.height} rx=${lod === "dot" ? 2 : 7} />
      ${lod === "full" ? html`<${FullCard} ...${{node, figures, most, onPath}} />`
        : lod === "small" ? html`<${SmallCard} ...${{node, figures, most, onPath}} width=${card.width} height=${card.height} />` : null}
    </g>
    ${lod === "full" && more && html`<g class="graph-more" role="button" tabindex="-1" aria-label=${more}
        transform=${`translate(${card.width - 30} 27)`} onClick=${() => onUnfold(node)}>
      <title>${more}</title><rect width="24" height="18" rx="4" />
      <path d=${node.kind === "operator" ? "M8 5v8M12 5v8M16 5v8" : "M8 9h8M12 5v8"} /></g>`}
  </g>`;
}

function unfolds(node, figures) {
  if (node.kind === "module") return `Show the operators of ${node.label}`;
  if (node.kind === "operator" && figures?.partitions + figures?.unifiers > 1) return `Show the partitions of ${node.label}`;
  return "";
}

function Frame({box, named, onFold}) {
  const title = box.kind === "split" ? `${box.label}: partitions and unifiers` : `module ${box.label}`;
  const text = fittedTitle(title, box.width - 40);
  return html`<g class=${`graph-frame graph-frame-${box.kind}`} transform=${`translate(${Math.round(box.x)} ${Math.round(box.y)})`}>
    <rect class="graph-frame-box" width=${Math.round(box.width)} height=${Math.round(box.height)} rx="10" />
    ${named && html`<text class="graph-frame-name" x="12" y="17">${text}</text>
      <g class="graph-more" role="button" tabindex="-1" aria-label=${`Fold ${box.label}`}
        transform=${`translate(${Math.round(box.width) - 30} 5)`} onClick=${() => onFold(box)}>
        <title>Fold ${box.label}</title><rect width="24" height="18" rx="4" /><path d="M8 9h8" /></g>`}
  </g>`;
}

function fittedTitle(text, width) {
  return textWidth(text, LABEL) <= width ? text : text.slice(0, Math.max(1, Math.floor(text.length * width / textWidth(text, LABEL)) - 1)) + "…";
}

/** Tuples per second beside edges, where there is room: those of the critical path first, none over another. */
function rateLabels(edges, figures, layout, places, zoom) {
  const taken = [];
  const first = (edge) => (figures.path.edges.has(edgeKey(edge)) ? 0 : 1);
  for (const edge of [...edges].sort((one, other) => first(one) - first(other))) {
    const rate = figures.edges.get(edgeKey(edge));
    const [from, to] = [places.get(edge.from), places.get(edge.to)];
    if ((!rate && !isQueue(edge)) || !from || !to) continue;
    const text = waiting(edge, figures) ?? `${short(rate)}/s`;
    const width = textWidth(text, LABEL);
    if (to.x - from.x - cardSize(zoom).width < width + BESIDE_LABEL) continue;
    const at = middle(edge, layout, places, zoom);
    const label = {key: edgeKey(edge), x: Math.round(at.x), y: Math.round(at.y) - 6, text, width};
    if (!taken.some((other) => Math.abs(other.x - label.x) < (other.width + width) / 2 + 6 && Math.abs(other.y - label.y) < 16)) taken.push(label);
  }
  return taken;
}

/** Drag to pan, wheel or two fingers to zoom. While it moves only the scene's shift is set. */
function usePointers({box, scene, camera, touched, size, later}) {
  const held = useRef(new Map());
  const drag = useRef(null);
  const shift = () => {
    scene.current?.setAttribute("transform", `translate(${camera.current.x} ${camera.current.y})`);
    if (drag.current && Math.hypot(camera.current.x - drag.current.drawn.x, camera.current.y - drag.current.drawn.y) > 60) {
      drag.current.drawn = {...camera.current};
      later();
    }
  };
  useEffect(() => {
    const element = box.current;
    const wheel = (event) => {
      if (!camera.current) return;
      event.preventDefault();
      touched.current = true;
      const {left, top} = element.getBoundingClientRect();
      const step = event.deltaMode ? event.deltaY * 16 : event.deltaY;
      camera.current = event.shiftKey ? {...camera.current, x: camera.current.x - step}
        : zoomed(camera.current, Math.exp(-step * WHEEL), {x: event.clientX - left, y: event.clientY - top});
      later();
    };
    element.addEventListener("wheel", wheel, {passive: false});
    return () => element.removeEventListener("wheel", wheel);
  }, [size]);
  return {
    onPointerDown: (event) => {
      if (event.button || !camera.current || event.target.closest("button")) return;
      held.current.set(event.pointerId, {x: event.clientX, y: event.clientY});
      drag.current = {from: {x: event.clientX, y: event.clientY}, drawn: {...camera.current}, moved: false};
    },
    onPointerMove: (event) => {
      const before = held.current.get(event.pointerId);
      if (!before || !drag.current) return;
      const now = {x: event.clientX, y: event.clientY};
      const far = Math.hypot(now.x - drag.current.from.x, now.y - drag.current.from.y) > 4;
      if (!drag.current.moved && !far) return;
      if (!drag.current.moved) {
        drag.current.moved = touched.current = true;
        box.current.setPointerCapture(event.pointerId);
        box.current.classList.add("graph-panning");
      }
      if (held.current.size === 2) {
        const [one, other] = [...held.current.keys()].map((id) => (id === event.pointerId ? before : held.current.get(id)));
        const [a, b] = event.pointerId === [...held.current.keys()][0] ? [now, other] : [one, now];
        const factor = Math.hypot(a.x - b.x, a.y - b.y) / Math.max(1, Math.hypot(one.x - other.x, one.y - other.y));
        const {left, top} = box.current.getBoundingClientRect();
        camera.current = zoomed(camera.current, factor, {x: (a.x + b.x) / 2 - left, y: (a.y + b.y) / 2 - top});
        later();
      } else {
        camera.current = {...camera.current, x: camera.current.x + now.x - before.x, y: camera.current.y + now.y - before.y};
        shift();
      }
      held.current.set(event.pointerId, now);
    },
    onPointerUp: (event) => release(event),
    onPointerCancel: (event) => release(event),
    onClickCapture: (event) => {
      if (drag.current?.moved) {
        event.stopPropagation();
        drag.current = null;
      }
    },
  };
  function release(event) {
    held.current.delete(event.pointerId);
    box.current.classList.remove("graph-panning");
    if (drag.current?.moved) later();
  }
}
