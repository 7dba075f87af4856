// The look: light or dark, as the system says or the person has chosen; and the mark beside the name.
import { html, useEffect, useState } from "../vendor/preact.js";

const THEME = "ridgeline-theme";

export function themeOf() {
  const chosen = localStorage.getItem(THEME);
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function useTheme() {
  const [theme, setTheme] = useState(themeOf);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => setTheme(themeOf());
    media.addEventListener("change", follow);
    return () => media.removeEventListener("change", follow);
  }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    window.dispatchEvent(new Event("themechange"));
  }, [theme]);
  return [theme, (next) => {
    localStorage.setItem(THEME, next);
    setTheme(next);
  }];
}

export function ThemeButton() {
  const [theme, setTheme] = useTheme();
  const other = theme === "dark" ? "light" : "dark";
  return html`<button type="button" class="button quiet" aria-label=${`Use ${other} colours`} title=${`Use ${other} colours`} onClick=${() => setTheme(other)}>${theme === "dark" ? "☀" : "☾"}</button>`;
}

export function Mark() {
  return html`<svg class="frame-mark" viewBox="0 0 16 16" aria-hidden="true"><path d="M1 13 5.5 5l3 4.5L11 6l4 7" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" stroke-linecap="round" /></svg>`;
}
