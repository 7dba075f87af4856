// From a layout and a camera to what is on the screen: cards of a fixed size in pixels, never a label below 11.

import {CARD, edgeKey} from "./layout.js";

export const LEAST_ZOOM = 0.02;
export const MOST_ZOOM = 1.1;
const FULL = 0.8;
const SMALL = 0.38;
const MARGIN = 80;
const ADJACENT = 1.75; // columns: so near nodes have nothing between them

/** How much a card shows at a zoom: `full`, `small` (name and bar) or `dot` (a place without a label). */
export function level(zoom) {
  return zoom >= FULL ? "full" : zoom >= SMALL ? "small" : "dot";
}

/** The size of a card in pixels at a zoom. */
export function cardSize(zoom) {
  const lod = level(zoom);
  if (lod === "full") return {width: CARD.width, height: CARD.height};
  if (lod === "small") return {width: CARD.width * zoom, height: Math.max(36, CARD.height * zoom * 0.68)};
  return {width: Math.max(4, CARD.width * zoom), height: Math.max(3, CARD.height * zoom * 0.62)};
}

/** A camera that shows all of a layout; at most at full size. Of a graph that is too large, at its least. */
export function fit(layout, size, least = LEAST_ZOOM) {
  const [w, h] = [layout.width + CARD.column, layout.height + CARD.row * 2];
  const exact = Math.min(size.width / w, size.height / h, 1);
  const zoom = Math.max(least, exact);
  return {
    x: exact >= zoom || w * zoom <= size.width ? (size.width - layout.width * zoom) / 2 : CARD.column / 2,
    y: exact >= zoom || h * zoom <= size.height ? (size.height - layout.height * zoom) / 2 : CARD.row,
    zoom,
  };
}

/** A camera with a node in the middle. */
export function centred(layout, id, size, zoom) {
  const place = layout.nodes.get(id);
  return place && {x: size.width / 2 - place.x * zoom, y: size.height / 2 - place.y * zoom, zoom};
}

/** Zoom around a point of the screen. */
export function zoomed(camera, factor, at) {
  const zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, camera.zoom * factor));
  const by = zoom / camera.zoom;
  return {x: at.x - (at.x - camera.x) * by, y: at.y - (at.y - camera.y) * by, zoom};
}

/** The places of nodes in pixels, before the camera's shift: {get(id) -> {x, y}, has(id)}. Made when asked for. */
export function placed(layout, zoom) {
  const found = new Map();
  return {
    has: (id) => layout.nodes.has(id),
    get: (id) => {
      let place = found.get(id);
      const at = place ? null : layout.nodes.get(id);
      if (at) found.set(id, place = {x: at.x * zoom, y: at.y * zoom});
      return place;
    },
  };
}

/** What of a graph is on the screen, or near it: a function of camera and size that gives {nodes, edges}.
 *
 * An edge is there if the rectangle between its ends is. Numbers only are compared: in each frame that is done for all.
 */
export function finder(graph, layout) {
  const nodes = [...graph.nodes.values()].filter((node) => layout.nodes.has(node.id));
  const at = nodes.map((node) => layout.nodes.get(node.id));
  const edges = graph.edges.filter((edge) => layout.nodes.has(edge.from) && layout.nodes.has(edge.to));
  const boxes = edges.map((edge) => {
    const [from, to] = [layout.nodes.get(edge.from), layout.nodes.get(edge.to)];
    return {left: Math.min(from.x, to.x), right: Math.max(from.x, to.x), top: Math.min(from.y, to.y), bottom: Math.max(from.y, to.y)};
  });
  return (camera, size) => {
    const {zoom} = camera;
    const [x, y] = [CARD.width / 2 + MARGIN, CARD.height / 2 + MARGIN];
    const [left, right] = [(-x - camera.x) / zoom, (size.width + x - camera.x) / zoom];
    const [top, bottom] = [(-y - camera.y) / zoom, (size.height + y - camera.y) / zoom];
    return {
      nodes: nodes.filter((_, index) => at[index].x > left && at[index].x < right && at[index].y > top && at[index].y < bottom),
      edges: edges.filter((_, index) => boxes[index].left < right && boxes[index].right > left &&
        boxes[index].top < bottom && boxes[index].bottom > top),
    };
  };
}

/** Whether a place is on the screen, or near it. */
export function near(place, camera, size, margin = MARGIN) {
  const [x, y] = [place.x + camera.x, place.y + camera.y];
  const half = {x: CARD.width / 2 + margin, y: CARD.height / 2 + margin};
  return x > -half.x && x < size.width + half.x && y > -half.y && y < size.height + half.y;
}

/** The line of an edge: from the right of a card over the layout's points to the left of another. */
export function line(edge, layout, places, zoom) {
  const [from, to] = [places.get(edge.from), places.get(edge.to)];
  if (!from || !to) return null;
  const half = cardSize(zoom).width / 2;
  const known = layout.edges.get(edgeKey(edge)) ?? [];
  const straight = known.length < 2 || to.x - from.x < ADJACENT * (CARD.width + CARD.column) * zoom;
  const inner = straight ? [] : known.map(([x, y]) => ({x: x * zoom, y: y * zoom}));
  const start = {x: from.x + half, y: from.y};
  const end = {x: to.x - half, y: to.y};
  if (end.x < start.x) return loop(start, end);
  const points = [start, ...inner.filter((one) => one.x > start.x + 4 && one.x < end.x - 4), end];
  let d = `M${round(start.x)} ${round(start.y)}`;
  for (let at = 1; at < points.length; at++) {
    const [a, b] = [points[at - 1], points[at]];
    const middle = round((a.x + b.x) / 2);
    d += `C${middle} ${round(a.y)} ${middle} ${round(b.y)} ${round(b.x)} ${round(b.y)}`;
  }
  return d;
}

/** A point in the middle of an edge, for its label. */
export function middle(edge, layout, places, zoom) {
  const inner = layout.edges.get(edgeKey(edge)) ?? [];
  const [from, to] = [places.get(edge.from), places.get(edge.to)];
  if (inner.length > 2) {
    const [x, y] = inner[Math.floor(inner.length / 2)];
    return {x: x * zoom, y: y * zoom};
  }
  return {x: (from.x + to.x) / 2, y: (from.y + to.y) / 2};
}

function loop(start, end) {
  const low = round(Math.max(start.y, end.y) + 60);
  return `M${round(start.x)} ${round(start.y)}C${round(start.x + 50)} ${low} ${round(end.x - 50)} ${low} ` +
    `${round(end.x)} ${round(end.y)}`;
}

function round(value) {
  return Math.round(value * 10) / 10;
}

/** How thick an edge is, in pixels, by tuples per second. */
export function thickness(rate) {
  return Math.min(9, 1.25 + Math.log10(1 + Math.max(0, rate)) * 1.15);
}

/** Rectangles around the nodes of frames, in pixels; inner frames after outer ones. */
export function frameBoxes(frames, places, zoom) {
  const size = cardSize(zoom);
  const boxes = [];
  for (const frame of frames) {
    const inside = frame.nodes.map((id) => places.get(id)).filter(Boolean);
    if (!inside.length) continue;
    const depth = frames.filter((other) => other !== frame && frame.nodes.some((id) => other.nodes.includes(id)) &&
      other.nodes.length < frame.nodes.length).length;
    const pad = (10 + 8 * depth) * Math.max(0.3, Math.min(1, zoom));
    const top = (level(zoom) === "dot" ? 0 : 22) + pad;
    const xs = inside.map((one) => one.x);
    const ys = inside.map((one) => one.y);
    const x = Math.min(...xs) - size.width / 2 - pad;
    const y = Math.min(...ys) - size.height / 2 - top;
    boxes.push({
      ...frame, x, y, width: Math.max(...xs) + size.width / 2 + pad - x, height: Math.max(...ys) + size.height / 2 + pad - y,
    });
  }
  return boxes.sort((one, other) => other.width * other.height - one.width * one.height);
}

let context = null;
const widths = new Map();

/** A text that is at most so wide, in pixels; its middle is left out where it is wider. */
export function fitted(text, width, font) {
  if (textWidth(text, font) <= width) return text;
  let [low, high] = [0, text.length];
  const cut = (kept) => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
  while (low < high) {
    const kept = Math.ceil((low + high) / 2);
    if (textWidth(cut(kept), font) <= width) low = kept;
    else high = kept - 1;
  }
  return low ? cut(low) : "";
}

export function textWidth(text, font) {
  const key = `${font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    context ??= document.createElement("canvas").getContext("2d");
    context.font = font;
    width = context.measureText(text).width;
    if (widths.size > 20_000) widths.clear();
    widths.set(key, width);
  }
  return width;
}

/** The names that have room on a picture of dots: the wanted ones first, none over another. */
export function labels(wanted, places, zoom, camera, size) {
  const taken = [];
  const chosen = [];
  const half = cardSize(zoom).height / 2;
  for (const {id, text, width} of wanted) {
    const place = places.get(id);
    if (!place || !near(place, camera, size, 0)) continue;
    const box = {x: place.x - width / 2, y: place.y - half - 17, width, height: 15};
    if (taken.some((other) => box.x < other.x + other.width + 6 && other.x < box.x + width + 6 &&
      box.y < other.y + 16 && other.y < box.y + 16)) continue;
    taken.push(box);
    chosen.push({id, text, x: place.x, y: place.y - half - 5});
  }
  return chosen;
}

/** The node to which an arrow key leads: along a stream, or the next one of the same column. */
export function beside(id, key, graph, layout, around) {
  const here = layout.nodes.get(id);
  if (!here) return null;
  const closest = (list) => list.filter((one) => layout.nodes.has(one)).sort((one, other) =>
    Math.abs(layout.nodes.get(one).y - here.y) - Math.abs(layout.nodes.get(other).y - here.y))[0] ?? null;
  if (key === "ArrowRight") return closest(around.after.get(id) ?? []);
  if (key === "ArrowLeft") return closest(around.before.get(id) ?? []);
  const down = key === "ArrowDown";
  const column = [...graph.nodes.keys()].filter((one) => {
    const place = layout.nodes.get(one);
    return one !== id && place && Math.abs(place.x - here.x) < CARD.width && (down ? place.y > here.y : place.y < here.y);
  });
  return closest(column);
}
