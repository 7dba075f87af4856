// A small chart over time: one to three lines, what happened as marks, and the value under the pointer.
import { timeOfDay } from "../format.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { KINDS, colourOf } from "./marks.js";

const HEIGHT = 56;
const MOST_MARKS = 40;

// `at`: seconds since 1970; `lines`: [{name, values, class}]; `show`: a value as text; `from`, `to`: the time that the
// chart is of; `gap`: seconds without a value that break a line; `chosen`: a time that is marked.
export function Lines({ title, at, lines, show, marks = [], from = at[0], to = at.at(-1), gap = 30, chosen = null }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState(null);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  let most = 0;
  for (const line of lines) for (const value of line.values) if (value > most) most = value;
  const x = (time) => (to > from ? ((time - from) / (to - from)) * width : width);
  const y = (value) => HEIGHT - 2 - (most ? (value / most) * (HEIGHT - 6) : 0);
  const path = (values) => {
    let [d, pen] = ["", "M"];
    values.forEach((value, index) => {
      if (value == null || (index && at[index] - at[index - 1] > gap)) pen = "M";
      if (value == null) return;
      d += `${pen}${x(at[index]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    return d;
  };
  const within = (time) => time != null && time >= from && time <= to;
  const index = over === null || over >= at.length ? at.length - 1 : over;
  const now = lines.map((line) => `${lines.length > 1 ? `${line.name} ` : ""}${show(line.values[index] ?? null)}`).join(" · ");
  const move = (event) => {
    const { left } = box.current.getBoundingClientRect();
    const time = from + ((event.clientX - left) / width) * (to - from);
    setOver(at.reduce((best, one, each) => (Math.abs(one - time) < Math.abs(at[best] - time) ? each : best), 0));
  };
  const near = over === null || !width ? [] : marks.filter((mark) => within(mark.at) && Math.abs(x(mark.at) - x(at[index])) < 5);
  return html`<figure class="lines">
    <figcaption><span>${title}</span><span class="lines-now">${over !== null && html`<time>${timeOfDay(at[index])}</time> `}${now}</span></figcaption>
    <div ref=${box} onPointerMove=${at.length > 1 ? move : null} onPointerLeave=${() => setOver(null)}>
      <svg width=${width} height=${HEIGHT} role="img" aria-label=${`${title}: ${now}`}>
        <line class="lines-base" x1="0" x2=${width} y1=${HEIGHT - 1.5} y2=${HEIGHT - 1.5} />
        ${marks.filter((mark) => within(mark.at)).slice(-MOST_MARKS).map((mark) => html`<g key=${`${mark.at} ${mark.text}`} class="lines-mark" style=${{ color: `var(${colourOf(mark)})` }}>
          <line x1=${x(mark.at)} x2=${x(mark.at)} y1="11" y2=${HEIGHT - 2} /><text x=${x(mark.at)} y="9">${KINDS[mark.kind]?.glyph ?? "•"}</text></g>`)}
        ${lines.map((line) => html`<path key=${line.name} class=${`lines-line lines-${line.class ?? "first"}`} d=${path(line.values)} />`)}
        ${within(chosen) && html`<line class="lines-chosen" x1=${x(chosen)} x2=${x(chosen)} y1="0" y2=${HEIGHT} />`}
        ${over !== null && html`<line class="lines-over" x1=${x(at[index])} x2=${x(at[index])} y1="0" y2=${HEIGHT} />`}
      </svg>
      <span class="lines-most">${most > 0 && show(most)}</span>
      ${near.length > 0 && html`<span class="lines-near" aria-hidden="true">${near.slice(-2).map((mark) => mark.text).join("; ")}</span>`}
    </div></figure>`;
}
