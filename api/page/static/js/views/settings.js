import { html } from "../../vendor/preact-htm.js";

export const Settings = () => html`<p class="quiet">Settings</p>`;
