import { html } from "../../vendor/preact-htm.js";

export const Tools = () => html`<p class="quiet">Tools</p>`;
