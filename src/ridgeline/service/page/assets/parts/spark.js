// A line without axes. `values`: numbers, oldest first, null for a gap.
import { html } from "../vendor/preact.js";

export function Spark({ values, label, height = 20 }) {
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
  return html`<svg class="spark" viewBox=${`0 0 100 ${height}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    <path d=${path} />
  </svg>`;
}
