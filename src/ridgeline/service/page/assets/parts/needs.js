// Why something cannot be done from here: the role that it needs, and as whom the page is known.
import { html } from "../vendor/preact.js";
import { useStore } from "../store.js";

const ROLES = ["read", "operate", "admin"];

// A sentence; empty if the role is enough. `what`: its subject, such as "Pausing".
export function useNeeds(role, what) {
  const rights = useStore((state) => state.rights);
  if (!rights || rights.readOnly || ROLES.indexOf(rights.role) >= ROLES.indexOf(role)) return "";
  const who = rights.name ? `known as ${rights.name}` : "not signed in";
  const has = rights.role ? `, with the role ${rights.role}` : rights.name ? ", without a role" : "";
  return `${what} needs the role ${role}. This page is ${who}${has}.`;
}

// The sentence beside a control, which names it by `aria-describedby`.
export function Needs({ id, text }) {
  return text ? html`<p id=${id} class="muted needs">${text}</p>` : null;
}
