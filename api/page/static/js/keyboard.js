// The keys of the page, and the dialog that lists them.
import { html } from "../vendor/preact-htm.js";
import { Button, Dialog, Field, Select } from "./parts.js";
import { currentRoute, go, href } from "./router.js";
import { editor } from "./session.js";
import { useStore } from "./store.js";
import { EDITORS } from "./views/places.js";

const KEYS = [
  ["/", "Go to the search field, as Ctrl K does"],
  ["↑ ↓", "Go from the question to the hits, and from one to the next"],
  ["?", "Show these keys"],
  ["Tab", "Go to the next control"],
  ["Enter", "Follow a link, press a button, send a form"],
  ["Esc", "Close a dialog"],
];

export function Keys({ onClose }) {
  const chosen = useStore(editor);
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table class="keys">
      <tbody>
        ${KEYS.map(([name, text]) => html`<tr><th scope="row"><kbd>${name}</kbd></th><td>${text}</td></tr>`)}
      </tbody>
    </table>
    <${Field} label="Open files of this machine in" help="Hits have a link to it. Kept in this browser.">
      ${(own) => html`<${Select} ...${own} options=${[["", "no editor"], ...Object.entries(EDITORS).map(([name, [title]]) => [name, title])]}
        value=${chosen} onChange=${(event) => editor.set(event.target.value)} />`}<//>
    <div class="actions"><${Button} onClick=${onClose} autofocus>Close<//></div>
  <//>`;
}

// Listen for the keys until the returned function is called.
export function onShortcuts(showKeys) {
  function pressed(event) {
    if (document.querySelector("dialog[open]")) return;
    const isCommand = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
    if (!isCommand && (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))) return;
    if (isCommand) toSearch();
    else if (event.key === "?") showKeys();
    else if (event.key === "/") toSearch();
    else return;
    event.preventDefault();
  }
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

const isTyping = (element) => element.matches?.("input, textarea, select, [contenteditable]");

// A view marks its search field with `data-search`. Without one, the search of the folder, or of all, is opened.
function toSearch() {
  const field = document.querySelector("[data-search]");
  const [first, id] = currentRoute().parts;
  if (field) field.select();
  else {
    go(first === "tools" && id && !document.querySelector("[data-gone]") ? href("tools", id, "search") : "#/");
    requestAnimationFrame(() => setTimeout(() => document.querySelector("[data-search]")?.focus()));
  }
}
