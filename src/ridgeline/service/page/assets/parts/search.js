// Goes to an operator or a view by a few letters of its name: `/`.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { current, go } from "../router.js";
import { useStore } from "../store.js";
import { views } from "../views/index.js";
import { Dialog } from "./dialog.js";

const MOST = 12;
const WITH_OPERATOR = ["overview", "graph"]; // the views that show a chosen operator

export function Search({ onClose }) {
  const operators = useStore((state) => state.plan?.operators);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef();
  const found = useMemo(() => find(text, operators ?? []), [text, operators]);
  useEffect(() => field.current.focus(), []);
  useEffect(() => {
    document.getElementById(`search-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [at]);

  function open(one) {
    onClose();
    if (one) go(one.place);
  }

  function key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((found.length + at + step) % (found.length || 1));
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(found[at]);
    }
  }

  return html`<${Dialog} title="Go to" kind="search" onClose=${onClose}>
    <input
      class="field"
      ref=${field}
      type="search"
      role="combobox"
      aria-label="Name of an operator or a view"
      aria-expanded="true"
      aria-controls="search-found"
      aria-activedescendant=${found.length ? `search-${at}` : undefined}
      value=${text}
      onInput=${(event) => {
        setText(event.target.value);
        setAt(0);
      }}
      onKeyDown=${key}
    />
    <ul id="search-found" class="search-found" role="listbox" aria-label="Found">
      ${found.map((one, index) => html`<li
        key=${one.kind + one.name}
        id=${`search-${index}`}
        role="option"
        aria-selected=${index === at ? "true" : "false"}
        onClick=${() => open(one)}
      >
        <span>${one.name}</span><span class="muted">${one.kind}</span>
      </li>`)}
    </ul>
    ${found.length === 0 && html`<p class="muted">Nothing matches.</p>`}
  </>`;
}

// Operators and views whose names have the letters, in their order; those that begin with them first.
function find(text, operators) {
  const view = WITH_OPERATOR.includes(current().view) ? current().view : "graph";
  const wanted = text.toLowerCase();
  const all = [
    ...operators.map((one) => ({ name: one.name, kind: "operator", place: { view, operator: one.name } })),
    ...views.map((one) => ({ name: one.title, kind: "view", place: { view: one.name } })),
  ];
  return all
    .map((one) => ({ ...one, rank: rank(one.name.toLowerCase(), wanted) }))
    .filter((one) => one.rank < 3)
    .sort((first, second) => first.rank - second.rank)
    .slice(0, MOST);
}

function rank(name, wanted) {
  if (name.startsWith(wanted)) return 0;
  if (name.includes(wanted)) return 1;
  let from = 0;
  for (const letter of wanted) {
    from = name.indexOf(letter, from) + 1;
    if (!from) return 3;
  }
  return 2;
}
