// Asks for the token, where the service needs one and the browser has no session yet.
import { html, useState } from "../vendor/preact.js";
import { rights, signIn } from "../api.js";
import { store } from "../store.js";
import { Needs, useNeeds } from "./needs.js";
import { Notice } from "./notice.js";

const PRINTED = "The driver printed the token at start, and an address that opens this page without it.";

// `why`: in a sentence. `role`: that which is needed. `hint`: where the token is. `problem`: what went wrong before. `onDone()`: there is a session.
export function SignIn({ why, role = "operate", hint = PRINTED, problem: first, onDone }) {
  const [problem, setProblem] = useState(first);
  const needs = useNeeds(role, "This");
  async function send(event) {
    event.preventDefault();
    try {
      await signIn({ token: event.target.elements.token.value });
      store.set({ rights: await rights() });
      onDone();
    } catch (error) {
      setProblem(error);
    }
  }
  return html`<form class="sign-in" onSubmit=${send}>
    <p>${why}</p>
    <${Needs} id="sign-in-needs" text=${needs} />
    <p class="muted">${hint}</p>
    <${Notice} problem=${problem} />
    <label>Token <input class="field" name="token" type="password" autocomplete="off" required aria-describedby=${needs ? "sign-in-needs" : undefined} /></label>
    <div><button class="button first" type="submit">Sign in</button></div>
  </form>`;
}
