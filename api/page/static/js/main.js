import { html, render } from "../vendor/preact-htm.js";
import { App } from "./app.js";
import { refreshRoute } from "./router.js";
import { openLink } from "./session.js";

const root = document.getElementById("app");
await openLink();
refreshRoute();
// a link that is pasted while the page is open loads nothing
addEventListener("hashchange", () => openLink().then(refreshRoute));
root.replaceChildren();
render(html`<${App} />`, root);

// the fragment of the address is the route, so the link cannot use it
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
});
