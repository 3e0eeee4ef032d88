import { html, render } from "../vendor/preact-htm.js";
import { App } from "./app.js";

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);

// the fragment of the address is the route, so the link cannot use it
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
});
