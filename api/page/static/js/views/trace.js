// The steps of a search, one below the other, each beginning where the one before ended.
import { html } from "../../vendor/preact-htm.js";
import { number } from "../format.js";

const STEPS = {
  embed: "The question becomes a vector",
  store: "The index is asked",
  rows: "Texts are read and scores boosted",
  rerank: "A model ranks again",
  refresh: "The folder is compared",
  tree: "The tree is searched",
};

export function Timeline({ steps, tookMs }) {
  if (!steps.length) return null;
  const whole = Math.max(tookMs, steps.reduce((sum, each) => sum + each.took_ms, 0)) || 1;
  let before = 0;
  return html`<details class="trace">
    <summary>Steps of this search</summary>
    <ol class="timeline">
      ${steps.map((each) => {
        const style = { marginLeft: `${(before / whole) * 100}%`, width: `${Math.max(0.5, (each.took_ms / whole) * 100)}%` };
        before += each.took_ms;
        return html`<li>
          <span class="step">${STEPS[each.step] ?? each.step}</span>
          <span class="track"><span style=${style}></span></span>
          <span class="quiet">${number(Math.round(each.took_ms))} ms${each.found !== null ? `, ${number(each.found)} found` : ""}${each.detail ? `, ${each.detail}` : ""}</span>
        </li>`;
      })}
    </ol>
  </details>`;
}
