import { html } from "../../vendor/preact-htm.js";

export const Search = () => html`<p class="quiet">Search</p>`;
