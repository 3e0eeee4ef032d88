// The scores of an answer as a histogram, with the least score that is shown.
import { html } from "../../vendor/preact-htm.js";
import { plural } from "../format.js";

const BINS = 20;
const FEWEST = 3;
const [WIDE, HIGH] = [400, 60];

export function Scores({ scores, least }) {
  if (scores.length < FEWEST) return null;
  const bins = Array(BINS).fill(0);
  for (const score of scores) bins[Math.min(BINS - 1, Math.floor(score * BINS))] += 1;
  const most = Math.max(...bins);
  const below = scores.filter((score) => score < least).length;
  const said = `Scores of ${plural(scores.length, "hit")} from ${Math.min(...scores).toFixed(2)} to ${Math.max(...scores).toFixed(2)}` +
    (least > 0 ? `; ${plural(below, "is", "are").replace(/^(\S+) /, "$1 of them ")} below ${least.toFixed(2)}.` : ".");
  const each = WIDE / BINS;
  return html`<details class="scores"><summary>Scores of these hits</summary>
    <p class="quiet">${said} <span aria-hidden="true">Each bar counts the hits of a twentieth of the scale from 0 to 1.</span></p>
    <svg role="img" aria-label=${said} viewBox=${`0 -2 ${WIDE} ${HIGH + 18}`}>
      ${bins.map((count, bin) => html`<rect key=${bin} class=${(bin + 1) / BINS <= least ? "bin bin-below" : "bin"} x=${bin * each + 1} width=${each - 2}
        y=${HIGH - (HIGH * count) / most} height=${(HIGH * count) / most} />`)}
      <line class="axis" x1="0" x2=${WIDE} y1=${HIGH} y2=${HIGH} />
      ${least > 0 && html`<line class="threshold" x1=${least * WIDE} x2=${least * WIDE} y1="-2" y2=${HIGH} />`}
      ${[0, 0.5, 1].map((value) => html`<text key=${value} class="small-text" x=${value * WIDE} y=${HIGH + 14} text-anchor=${value === 0 ? "start" : value === 1 ? "end" : "middle"}>${value}</text>`)}
    </svg></details>`;
}
