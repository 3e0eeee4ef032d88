import { html } from "../../vendor/preact-htm.js";

export const Grep = () => html`<p class="quiet">Grep</p>`;
