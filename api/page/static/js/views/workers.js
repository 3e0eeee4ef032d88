import { html } from "../../vendor/preact-htm.js";

export const Workers = () => html`<p class="quiet">Workers</p>`;
