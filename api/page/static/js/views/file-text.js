import { html } from "../../vendor/preact-htm.js";

export const FileText = () => html`<p class="quiet">FileText</p>`;
