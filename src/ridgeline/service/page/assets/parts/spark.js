// A line without axes. `values`: numbers, oldest first, null for a gap. `marks`: what happened, each with the `index` of a value.
import { html } from "../vendor/preact.js";
import { colourOf, KINDS } from "./marks.js";

const MOST_MARKS = 20;

export function Spark({ values, label, height = 20, marks = [] }) {
  const known = values.filter((value) => value != null);
  if (known.length < 2) return null;
  const most = Math.max(...known) || 1;
  const step = 100 / (values.length - 1);
  let path = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value == null) {
      pen = "M";
      return;
    }
    path += `${pen}${(index * step).toFixed(2)} ${(height - 1 - (value / most) * (height - 2)).toFixed(2)}`;
    pen = "L";
  });
  const line = html`<svg class="spark" viewBox=${`0 0 100 ${height}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    <path d=${path} />
  </svg>`;
  const shown = marks.filter((mark) => mark.index >= 0 && mark.index < values.length).slice(-MOST_MARKS);
  if (!shown.length) return line;
  return html`<div class="spark-marked">${line}
    ${shown.map((mark) => html`<span key=${`${mark.at} ${mark.text}`} class="spark-mark" title=${mark.text} style=${{ left: `${mark.index * step}%`, color: `var(${colourOf(mark)})` }}>
      <span class="hidden">${KINDS[mark.kind]?.word ?? "event"}: ${mark.text}</span><span aria-hidden="true">${KINDS[mark.kind]?.glyph ?? "•"}</span></span>`)}
  </div>`;
}
