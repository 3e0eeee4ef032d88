// The key and the project of this browser tab, and whether the service answers.
import { store } from "./store.js";

const KEY = "foldex.key";
const PROJECT = "foldex.project";
const SESSION = "foldex.session";
const EDITOR = "foldex.editor";

export const key = store(sessionStorage.getItem(KEY) ?? "");
// Whether the service refused the last call for want of a valid key.
export const refused = store(false);
// The project of new tools, and whose tools are listed; "" means all that may be seen.
export const project = store(sessionStorage.getItem(PROJECT) ?? "");
// Whether the service could not be reached at the last try.
export const away = store(false);
// Grows each time the service comes back or another key is used: whatever was loaded is loaded again.
export const epoch = store(0);

// The session that the stack's link opened, of this address and port alone; "" without one.
export const session = store(localStorage.getItem(SESSION) ?? "");

// What is wrong with the link by which the page was opened; null without a fault.
export const linkFault = store(null);

// Exchange the link of the address for a session. The address forgets it at once.
export async function openLink() {
  const [, link] = location.hash.match(/^#\/?\?link=([\w-]+)$/) ?? [];
  if (!link) return;
  history.replaceState(null, "", "#/");
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch("api/session", { method: "POST", headers, body: JSON.stringify({ link }) }).catch(() => null);
  if (answer?.ok) {
    session.set((await answer.json()).session);
    localStorage.setItem(SESSION, session.get());
    epoch.set(epoch.get() + 1);
  }
  // a link that is opened twice in one browser changes nothing there
  linkFault.set(session.get() ? null : { detail: "The link was used before, so no other folder can be added here. Open the page by a new link." });
}

// The editor in which files of this machine are opened; "" for none.
export const editor = store(localStorage.getItem(EDITOR) ?? "");
editor.listen((value) => localStorage.setItem(EDITOR, value));

key.listen((value) => keep(KEY, value));
project.listen((value) => keep(PROJECT, value));

function keep(name, value) {
  if (value) sessionStorage.setItem(name, value);
  else sessionStorage.removeItem(name);
}

export function changeKey(value) {
  key.set(value);
  project.set("");
  refused.set(false);
  epoch.set(epoch.get() + 1);
}

const SLOWEST_MS = 8_000;
let waiting = false;

// Ask whether the service is there: a stopped process accepts calls and says nothing.
export const suspect = () => waiting || fetch("healthz", { signal: AbortSignal.timeout(4_000) }).catch(lost);

// Also while nothing is called, as while a form is filled in. Browsers slow it down in hidden tabs.
setInterval(suspect, 15_000);

// Note that the service cannot be reached, and ask until it answers.
export async function lost() {
  away.set(true);
  if (waiting) return;
  waiting = true;
  for (let pause = 500; ; pause = Math.min(pause * 2, SLOWEST_MS)) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    const answer = await fetch("readyz").catch(() => null);
    if (answer?.ok) break;
  }
  waiting = false;
  away.set(false);
  epoch.set(epoch.get() + 1);
}
