// A change: first what it would do, then the question, then what came of it; and the command that does the same.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get, post } from "../api.js";
import { store, useStore } from "../store.js";
import { Copy } from "./copy.js";
import { Dialog } from "./dialog.js";
import { Notice } from "./notice.js";
import { SignIn } from "./sign_in.js";

// The request may have arrived, and only its answer not.
const UNKNOWN = "It may have been made all the same: look at the view Changes before you confirm it again.";

// `edits`: as `/changes` takes them; or `action`: a path such as `/pause`, with `says`: what it does.
// `command`: the same as a command. `onClose(row)`: it is closed; `row` is the change, if it was made.
export function Change({ title, edits, action, says, command, onClose }) {
  const writes = useStore((state) => state.rights?.writes);
  const [difference, setDifference] = useState(null);
  const [problem, setProblem] = useState(null); // of the difference
  const [refusal, setRefusal] = useState(null); // of the change itself: it stays while others change the plan
  const [note, setNote] = useState("");
  const [busy, setBusy] = useState(false);
  const [row, setRow] = useState(null);
  const version = useStore((state) => state.overview?.info?.planVersion);
  const live = useStore((state) => state.connection.live);
  const first = useRef(version);

  // Where others have changed the plan, the difference is another one. It is asked for again where the line was cut, too.
  useEffect(() => {
    if (!writes || !edits || row || busy || (difference && difference.of === version)) return undefined;
    let over = false; // an answer of before would hide that of the plan as it is
    setProblem(null);
    setDifference(null);
    post("/changes", { edits, dryRun: true }).then(
      (found) => over || setDifference({ ...found, of: version }),
      (error) => over || fail(error, setProblem),
    );
    return () => {
      over = true;
    };
  }, [writes, JSON.stringify(edits), version, busy, live]);

  // The first answer comes after seconds at most: what waits longer, such as for slots, is asked for again.
  useEffect(() => {
    if (row?.state !== "QUEUED") return undefined;
    let over = false;
    const next = () => get(`/changes/${row.id}`, { wait: 5 }).then((found) => over || setRow(found), () => over || setRow({ ...row }));
    const timer = setTimeout(next, 500);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [row]);

  function fail(error, show) {
    show(error);
    if (error.status === 401) store.set({ rights: { ...store.state.rights, writes: false } }); // the session has ended
  }

  async function confirm() {
    setBusy(true);
    setRefusal(null);
    try {
      const asked = { note: note || null, who: "page" };
      setRow(await (action ? post(action, asked) : post("/changes", { ...asked, edits })));
    } catch (error) {
      fail(error.status ? error : { ...error, hint: UNKNOWN }, setRefusal);
    }
    setBusy(false);
  }

  const ready = !row && !busy && (action || difference);
  const actions = writes && html`
    <button type="button" class="button" onClick=${() => onClose(row)}>${row ? "Close" : "Cancel"}</button>
    ${!row && html`<button type="button" class="button first" disabled=${!ready} onClick=${confirm}>Confirm</button>`}
  `;
  return html`<${Dialog} title=${title} onClose=${() => onClose(row)} actions=${actions}>
    ${writes ? null : html`<${SignIn} why="To change something, the page needs the token." onDone=${() => {}} />`}
    ${writes && says && html`<p>${says}</p>`}
    ${writes && edits && !problem && (difference
      ? html`<div><p class="muted">${version === first.current || row || busy ? "" : "The plan has changed meanwhile. "}This is the difference:</p><pre class="change-lines" tabindex="0">${difference.lines.join("\n") || "It would change nothing."}</pre></div>`
      : html`<p class="muted">Working out what it would change.</p>`)}
    <${Notice} problem=${refusal ?? problem} />
    ${row && html`<p role="status">${row.what}: ${row.state === "QUEUED" ? "waits for its window" : row.state.toLowerCase()}${row.reason ? `, ${row.reason}` : ""}.</p>`}
    ${writes && !row && html`<label>Note <input class="field" value=${note} onInput=${(event) => setNote(event.target.value)} /></label>`}
    ${command && html`<${Copy} text=${command} label="The same as a command" />`}
  </>`;
}
