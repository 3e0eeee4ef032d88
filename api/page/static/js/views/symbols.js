import { html } from "../../vendor/preact-htm.js";

export const Symbols = () => html`<p class="quiet">Symbols</p>`;
