// The keys of the page, and the dialog that lists them.
import { html } from "../vendor/preact-htm.js";
import { Button, Dialog } from "./parts.js";
import { currentRoute, go, href } from "./router.js";

const KEYS = [
  ["/", "Go to the search field"],
  ["?", "Show these keys"],
  ["Tab", "Go to the next control"],
  ["Enter", "Follow a link, press a button, send a form"],
  ["Esc", "Close a dialog"],
];

export function Keys({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table class="keys">
      <tbody>
        ${KEYS.map(([name, text]) => html`<tr><th scope="row"><kbd>${name}</kbd></th><td>${text}</td></tr>`)}
      </tbody>
    </table>
    <div class="actions"><${Button} onClick=${onClose} autofocus>Close<//></div>
  <//>`;
}

// Listen for the keys until the returned function is called.
export function onShortcuts(showKeys) {
  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "?") showKeys();
    else if (event.key === "/") toSearch();
    else return;
    event.preventDefault();
  }
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

const isTyping = (element) => element.matches?.("input, textarea, select, [contenteditable]");

// A view marks its search field with `data-search`. Without one, the search of the tool is opened.
function toSearch() {
  const field = document.querySelector("[data-search]");
  const [first, id] = currentRoute().parts;
  if (field) field.focus();
  else if (first === "tools" && id) {
    go(href("tools", id, "search"));
    requestAnimationFrame(() => setTimeout(() => document.querySelector("[data-search]")?.focus()));
  }
}
