// The frame: the sentence, the navigation, the view that the address names.
import { html, render, useState, useEffect } from "./vendor/preact.js";
import { exchangeCode, rights } from "./api.js";
import { soon, timeOfDay } from "./format.js";
import { href, isCode, useRoute } from "./router.js";
import { begin, reconnect, store, useReadOnly, useStore } from "./store.js";
import { views } from "./views/index.js";
import { useAsked } from "./parts/asked.js";
import { Copy } from "./parts/copy.js";
import { Keys, onKey } from "./parts/keys.js";
import { Words } from "./parts/marks.js";
import { Empty, Notice } from "./parts/notice.js";
import { Search } from "./parts/search.js";
import { SignIn } from "./parts/sign_in.js";
import { Said } from "./parts/sentence.js";
import { State as StateWord } from "./parts/state.js";
import { Mark } from "./parts/mark.js";
import { RunMenu } from "./parts/run_menu.js";

function Frame() {
  const route = useRoute();
  const refused = useStore((state) => state.connection.refused);
  const readOnly = useReadOnly();
  const [open, setOpen] = useState(null);
  useEffect(() => {
    const forget = [
      onKey("/", "go to an operator or a view", () => setOpen("search")),
      onKey("?", "show the keys", () => setOpen("keys")),
    ];
    return () => forget.forEach((one) => one());
  }, []);
  return html`<div class="frame">
    <a class="frame-skip" href="#main" onClick=${skip}>Skip to the view</a>
    <header class="frame-head">
      <div class="frame-line">
        <${Mark} />
        <h1 class="frame-name"><${Name} /></h1>
        <${State} />
        <span class="space"></span>
        <${Connection} />
        <div class="frame-tools">
          <button type="button" class="button quiet" onClick=${() => setOpen("search")}>Go to <kbd class="frame-keys">/</kbd></button>
          <button type="button" class="button quiet frame-keys" aria-label="Keys" title="Keys" onClick=${() => setOpen("keys")}>?</button>
          ${readOnly ? html`<a class="button quiet" href=${new URL("../../", document.baseURI)}>All runs</a>` : html`<${RunMenu} />`}
        </div>
      </div>
      <${Sentence} />
      <${Remedy} />
    </header>
    <nav class="frame-nav" aria-label="Views">
      <ul>
        ${views.map((view) => html`<li key=${view.name}>
          <a href=${href({ view: view.name })} aria-current=${view.name === route.view ? "page" : undefined}>${view.title}</a>
        </li>`)}
      </ul>
    </nav>
    <main class="frame-main" id="main" tabindex="-1">
      <${Stale} />
      <${NotSignedIn} />
      <${ChosenWindow} />
      ${refused ? html`<div class="card frame-sign-in"><${SignIn} role="read" why="This application asks for its token." problem=${store.codeProblem} onDone=${reconnect} /></div>` : html`<${Place} name=${route.view} />`}
    </main>
    ${open === "search" && html`<${Search} onClose=${() => setOpen(null)} />`}
    ${open === "keys" && html`<${Keys} onClose=${() => setOpen(null)} />`}
  </div>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Name() {
  const name = useStore((state) => state.plan?.application);
  useEffect(() => {
    document.title = name ? `${name} · Ridgeline` : "Ridgeline";
  }, [name]);
  return name ?? "Ridgeline";
}

function State() {
  const said = useStore((state) => stateOf(state));
  return said && html`<${StateWord} state=${said} />`;
}

// The state in a word: the sentence's, else that of the application and its verdict; null: the page may not know.
function stateOf({ sentence, overview, connection }) {
  if (connection.refused) return null;
  if (sentence?.state) return sentence.state;
  const state = overview?.info?.state;
  if (state === "FAILED") return "failed";
  if (connection.ended || state === "FINISHED" || state === "STOPPED") return "ended";
  if (!overview?.window) return "starting";
  const verdict = overview.progress.application.verdict;
  return verdict === "stuck" ? "stuck" : /behind/.test(verdict) ? "behind" : "ok";
}

function Sentence() {
  const sentence = useStore((state) => state.sentence);
  const refused = useStore((state) => state.connection.refused);
  const known = useStore(({ overview }) => overview && [overview.info.state?.toLowerCase(), overview.progress.application.verdict].filter(Boolean).join(", "));
  const plain = refused ? "Sign in to see how this application does." : known;
  const now = { window: null, region: null, part: null }; // it is about now, whatever the address names
  const link = (about, text) => html`<a href=${href({ ...now, ...about })}>${text}</a>`;
  return html`<${Said} ...${{ sentence, plain, link }} />`;
}

// What would help an application that is behind, with its command, as below the sentence of `ridgeline status`.
function Remedy() {
  const behind = useStore(({ sentence, connection }) => connection.live && !connection.ended && sentence?.state === "behind");
  return behind && html`<${Advice} />`;
}

function Advice() {
  const { answer } = useAsked("/advice", {}, { every: 5000 });
  const first = answer?.advice[0];
  return first && html`<section class="frame-remedy" aria-label="What helps">
    <p><span class="muted">What helps</span> <${Words} text=${`${first.what}: ${first.why}`} /></p>
    ${first.command && html`<${Copy} text=${first.command} />`}
  </section>`;
}

function Connection() {
  const { live, since, begun, ended, refused } = useStore((state) => state.connection);
  const at = useStore((state) => (state.overview ? timeOfDay(state.overview.at) : ""));
  if (ended) return html`<span class="frame-connection frame-ended">ended, as of ${at}</span>`;
  if (!begun) return html`<span class="frame-connection">${refused ? "not signed in" : "connecting"}</span>`;
  if (!live) return html`<span class="frame-connection stale">stale since ${timeOfDay(since)}</span>`;
  return html`<span class="frame-connection">live, ${at}</span>`;
}

function Stale() {
  const { live, since, begun, ended, refused, again, problem } = useStore((state) => state.connection);
  const [, tick] = useState(0);
  useEffect(() => {
    if (live || again == null) return undefined;
    const timer = setInterval(() => tick((number) => number + 1), 1000);
    return () => clearInterval(timer);
  }, [live, again]);
  if (live || ended || refused || again == null) return null;
  const wait = again - Date.now() / 1000;
  return html`<${Notice} problem=${problem}>
    ${begun ? html`<p>Connection lost: figures are stale since ${timeOfDay(since)}.</p>` : !problem && html`<p>The application does not answer.</p>`}
    <p>${wait > 0 ? `Trying again in ${soon(wait)}.` : "Trying again."}</p>
  </>`;
}

// Why the address did not sign the browser in, where it may read all the same.
function NotSignedIn() {
  const refused = useStore((state) => state.connection.refused);
  const writes = useStore((state) => state.rights?.writes);
  return !refused && !writes && html`<${Notice} problem=${store.codeProblem} />`;
}

function ChosenWindow() {
  const { params } = useRoute();
  const shown = useStore((state) => state.shown);
  if (!params.window) return null;
  const there = shown?.asked === params.window && shown.region === params.region;
  const at = there && !shown.problem ? shown.window?.committedAt : null;
  return html`<div class="notice chosen">
    <p>Window ${params.window}${params.region ? ` of ${params.region}` : ""}${there ? "" : " is being read: the figures are still those of another"}${at ? `, committed at ${timeOfDay(at)}` : ""}. <a href=${href({ window: null, region: null })}>Back to the newest</a></p>
    ${there && shown.problem && html`<p>${shown.problem.error}</p>`}
  </div>`;
}

const loaded = new Map();

function Place({ name }) {
  const [, again] = useState(0);
  const view = views.find((one) => one.name === name);
  const found = loaded.get(name);
  useEffect(() => {
    if (!view || found) return;
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL(`./views/${name}.css`, import.meta.url);
    const styled = new Promise((resolve) => {
      style.onload = style.onerror = resolve;
    });
    document.head.append(style);
    Promise.all([view.load(), styled]).then(
      ([module]) => {
        loaded.set(name, module.default.View);
        again((number) => number + 1);
      },
      (problem) => {
        loaded.set(name, () => html`<${Notice} problem=${{ error: "this view cannot be loaded", hint: String(problem) }} />`);
        again((number) => number + 1);
      },
    );
  }, [name, found]);
  if (!view) return html`<${Empty}>There is no view ${name}. <a href=${href({ view: views[0].name })}>${views[0].title}</a></>`;
  return found ? html`<${found} key=${name} />` : null;
}

// The printed address in a tab that has the page already: the browser loads nothing by itself.
window.addEventListener("hashchange", () => isCode(location.hash) && location.reload());
store.codeProblem = await exchangeCode();
store.set({ rights: await rights().catch(() => ({ reads: true, writes: false })) });
render(html`<${Frame} />`, document.getElementById("page"));
begin();
