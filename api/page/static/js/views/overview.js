import { html } from "../../vendor/preact-htm.js";

export const Overview = () => html`<p class="quiet">Overview</p>`;
