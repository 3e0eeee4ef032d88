import { html } from "../../vendor/preact-htm.js";

export const Files = () => html`<p class="quiet">Files</p>`;
