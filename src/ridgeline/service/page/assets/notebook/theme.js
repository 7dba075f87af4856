// Light or dark, as the notebook around an element is.

const DARK = 0.5;

/** `light` or `dark`: what Jupyter or VS Code says, else how bright the ground behind the element is. */
export function themeAround(element) {
  const {jpThemeLight, vscodeThemeKind} = document.body.dataset;
  if (jpThemeLight) return jpThemeLight === "true" ? "light" : "dark";
  if (vscodeThemeKind) return /dark|high-contrast$/.test(vscodeThemeKind) ? "dark" : "light";
  for (let node = element; node; node = node.parentElement ?? node.getRootNode().host) {
    const ground = brightness(getComputedStyle(node).backgroundColor);
    if (ground !== null) return ground < DARK ? "dark" : "light";
  }
  return getComputedStyle(document.documentElement).colorScheme === "dark" ? "dark" : "light";
}

/** From 0 to 1; null for a colour that one sees through. */
function brightness(colour) {
  const context = canvas();
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
  return alpha < 128 ? null : (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
}

let drawn = null;

function canvas() {
  drawn ??= Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
  return drawn;
}

const LATER_MS = 600; // a theme's colours are loaded after its name is set

/** Keeps the attribute `data-theme` of an element like what is around it; returns what ends that. */
export function followTheme(element) {
  let later = 0;
  const look = () => {
    if (element.isConnected) element.dataset.theme = themeAround(element.parentElement ?? element.getRootNode().host);
  };
  const again = () => {
    look();
    clearTimeout(later);
    later = setTimeout(look, LATER_MS);
  };
  const observer = new MutationObserver(again);
  for (const one of [document.documentElement, document.body]) observer.observe(one, {attributes: true});
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", again);
  again();
  return () => {
    observer.disconnect();
    media.removeEventListener("change", again);
    clearTimeout(later);
  };
}
