import { html } from "../../vendor/preact-htm.js";

export const Tree = () => html`<p class="quiet">Tree</p>`;
