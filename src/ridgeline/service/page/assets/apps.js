// The list of applications: each with its sentence, its state and its age. `ridgeline web` serves it.
import { html, render, useEffect, useRef, useState } from "./vendor/preact.js";
import { exchangeCode, get, post } from "./api.js";
import { count, duration, timeOfDay } from "./format.js";
import { Empty, Notice } from "./parts/notice.js";
import { SignIn } from "./parts/sign_in.js";
import { State } from "./parts/state.js";
import { Table } from "./parts/table.js";
import { Mark, themeOf, ThemeButton } from "./parts/theme.js";

const PATH = "../apps";
const EVERY_MS = 2000;
const FILTER_FROM = 8;
const ENDED = { error: "The list does not answer.", hint: "`ridgeline web` may have ended: start it again." };
const PRINTED = "`ridgeline web` printed it, and an address that opens this page without it.";
// What needs a look comes first.
const ORDER = ["failed", "stuck", "silent", "behind", "refused", "strange", "starting", "asking", "ok", "ended", "gone"];
const WORDS = { silent: "does not answer", gone: "gone", refused: "without its token", strange: "unknown", asking: "not asked yet" };

function Apps({ problem: codeProblem }) {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  const [refused, setRefused] = useState(false);
  const [text, setText] = useState("");
  const ask = useRef();
  useEffect(() => {
    let over = false;
    let timer = null;
    ask.current = async () => {
      clearTimeout(timer);
      try {
        const answer = await get(PATH);
        setFound(answer);
        setProblem(null);
        setRefused(false);
      } catch (failure) {
        setRefused(failure.status === 401 || failure.status === 403);
        setProblem(failure);
      }
      if (!over && !document.hidden) timer = setTimeout(ask.current, EVERY_MS);
    };
    const look = () => document.hidden || ask.current(); // who does not look asks nobody
    document.addEventListener("visibilitychange", look);
    ask.current();
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  const apps = found?.apps ?? [];
  const sentence = found ? summary(apps) : refused ? "Sign in to see your applications." : "Asking the applications.";
  const urgent = apps.filter((app) => ["failed", "stuck", "silent"].includes(app.state)).length;
  useEffect(() => {
    document.title = `${urgent ? `(${urgent}) ` : ""}Applications · Ridgeline`;
  }, [urgent]);
  const wanted = text.trim().toLowerCase();
  const shown = apps.filter((app) => !wanted || [app.name, app.id, app.state, app.host, app.user, app.sentence].some((one) => one.toLowerCase().includes(wanted)));
  return html`<header class="frame-head">
      <div class="frame-line">
        <${Mark} />
        <h1 class="frame-name">Applications</h1>
        <span class="frame-space"></span>
        <span class=${`frame-connection ${problem ? "stale" : ""}`}>${found ? `${problem ? "stale since" : "live,"} ${timeOfDay(found.at)}` : ""}</span>
        <${ThemeButton} />
      </div>
      <p class="sentence" role="status">${sentence}</p>
    </header>
    <main class="apps" id="main">
      ${!refused && html`<${Notice} problem=${problem && (problem.status ? problem : ENDED)} />`}
      ${found?.problem && html`<${Notice} problem=${found.problem} />`}
      ${refused
        ? html`<div class="card frame-sign-in"><${SignIn} why="This list asks for its token." hint=${PRINTED} problem=${codeProblem} onDone=${() => ask.current()} /></div>`
        : found && html`<${List} apps=${shown} all=${apps.length} at=${found.at} text=${text} setText=${setText} />`}
    </main>`;
}

function List({ apps, all, at, text, setText }) {
  if (!all) return html`<${Empty}>No application of yours is running on this machine. Start one with ${html`<code>ridgeline run FILE</code>`}, or give addresses: ${html`<code>ridgeline web http://host:port</code>`}.</>`;
  const columns = [
    { name: "name", title: "Application", value: (app) => app.name, cell: (app) => html`<a class="apps-name" href=${app.url} onClick=${(event) => follow(event, app)}>${app.name}</a>` },
    { name: "state", title: "State", value: (app) => ORDER.indexOf(app.state), cell: (app) => html`<${State} state=${app.state} />` },
    { name: "sentence", title: "How it does", sort: false, value: (app) => app.sentence, cell: (app) => html`<${Said} app=${app} />` },
    { name: "age", title: "Runs for", number: true, value: (app) => (app.startTime ? at - app.startTime : null), cell: (app) => (app.state === "gone" ? "-" : duration(app.startTime ? Math.max(0, at - app.startTime) : null)) },
    { name: "host", title: "Where", value: (app) => app.host, cell: (app) => html`<span class="apps-where">${[app.user, app.host].filter(Boolean).join(" on ")}</span>` },
  ];
  return html`${all >= FILTER_FROM && html`<input class="field apps-find" type="search" aria-label="Find an application" placeholder="Find an application" value=${text} onInput=${(event) => setText(event.target.value)} />`}
    ${apps.length
      ? html`<${Table} label="Applications" columns=${columns} rows=${apps} id=${(app) => app.key} sort=${{ by: "state", descending: false }} onOpen=${open} />`
      : html`<${Empty}>No application matches “${text}”.</>`}`;
}

function Said({ app }) {
  const old = app.problem && app.sentence;
  return html`${app.problem && html`<span class="apps-said">${app.problem}</span>`}
    ${app.sentence && html`<span class="apps-said">${old ? `at ${timeOfDay(app.saidAt)} it said: ` : ""}${app.sentence}</span>`}
    ${!app.problem && !app.sentence && html`<span class="apps-said muted">no answer yet</span>`}`;
}

// In words: how many there are, and in which states.
function summary(apps) {
  if (!apps.length) return "No application is running.";
  const counts = new Map();
  for (const app of apps) counts.set(app.state, (counts.get(app.state) ?? 0) + 1);
  const parts = ORDER.filter((state) => counts.has(state)).map((state) => `${count(counts.get(state))} ${WORDS[state] ?? state}`);
  return `${count(apps.length)} ${apps.length === 1 ? "application" : "applications"}: ${parts.join(", ")}.`;
}

function follow(event, app) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return; // a tab of its own, to read
  event.preventDefault();
  open(app);
}

// Opens an application's page, with the right to change it where the list knows its token.
async function open(app) {
  if (!app.url) return;
  const answer = await post(`${PATH}/${app.key}/page`).catch(() => null);
  location.assign(answer?.url ?? app.url);
}

const problem = await exchangeCode();
document.documentElement.dataset.theme = themeOf();
render(html`<${Apps} problem=${problem} />`, document.getElementById("page"));
