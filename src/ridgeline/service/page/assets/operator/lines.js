// A small chart: one to three lines over the last minutes, with the value under the pointer.

import {timeOfDay} from "../format.js";
import {html, useLayoutEffect, useRef, useState} from "../vendor/preact.js";

const HEIGHT = 56;

/** `at`: seconds since 1970; `lines`: [{name, values, class}]; `show`: a value as text. */
export function Lines({title, at, lines, show}) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  const [over, setOver] = useState(null);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const most = Math.max(...lines.flatMap((line) => line.values.map((value) => value ?? 0)), 0);
  const [first, last] = [at[0], at.at(-1)];
  const x = (time) => (last > first ? ((time - first) / (last - first)) * width : width);
  const y = (value) => HEIGHT - 2 - (most ? (value / most) * (HEIGHT - 6) : 0);
  const path = (values) => {
    let [d, pen] = ["", "M"];
    values.forEach((value, index) => {
      if (value == null || (index && at[index] - at[index - 1] > 30)) pen = "M";
      if (value == null) return;
      d += `${pen}${x(at[index]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    return d;
  };
  const index = over === null ? at.length - 1 : over;
  const now = lines.map((line) => `${lines.length > 1 ? `${line.name} ` : ""}${show(line.values[index] ?? null)}`).join(" · ");
  const move = (event) => {
    const {left} = box.current.getBoundingClientRect();
    const time = first + ((event.clientX - left) / width) * (last - first);
    setOver(at.reduce((best, one, each) => (Math.abs(one - time) < Math.abs(at[best] - time) ? each : best), 0));
  };
  return html`<figure class="operator-chart">
    <figcaption><span>${title}</span><span class="operator-chart-now">${over !== null && html`<time>${timeOfDay(at[index])}</time> `}${now}</span></figcaption>
    <div ref=${box} onPointerMove=${at.length > 1 ? move : null} onPointerLeave=${() => setOver(null)}>
      <svg width=${width} height=${HEIGHT} role="img" aria-label=${`${title}: ${now}`}>
        <line class="operator-chart-base" x1="0" x2=${width} y1=${HEIGHT - 1.5} y2=${HEIGHT - 1.5} />
        ${lines.map((line) => html`<path key=${line.name} class=${`operator-line operator-line-${line.class ?? "first"}`} d=${path(line.values)} />`)}
        ${over !== null && html`<line class="operator-chart-over" x1=${x(at[index])} x2=${x(at[index])} y1="0" y2=${HEIGHT} />`}
      </svg>
      <span class="operator-chart-most">${most > 0 && show(most)}</span>
    </div></figure>`;
}
