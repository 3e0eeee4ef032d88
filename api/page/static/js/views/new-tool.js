import { html } from "../../vendor/preact-htm.js";

export const NewTool = () => html`<p class="quiet">NewTool</p>`;
