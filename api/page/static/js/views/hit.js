// One hit: its place, its text with the question's words marked, its neighbours, and why it stands here.
import { html, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { words as spoken } from "../format.js";
import { useAction } from "../hooks.js";
import { Alert, Button } from "../parts.js";
import { FileLink } from "./places.js";
import { marked } from "./marks.js";

const MORE_CHUNKS = 2;
// A longer hit is folded, so that the next one is in sight.
const FOLDED_CHARS = 1500;

export function Hit({ toolId, hit, words, q }) {
  const [around, setAround] = useState({ before: [], after: [] });
  const [isWhole, setWhole] = useState(false);
  const more = useAction(async () => {
    const count = around.before.length + MORE_CHUNKS;
    setAround(await get(toolAt(toolId, "chunks", hit.chunk_id), { before: count, after: count }));
  });
  const text = isWhole || hit.chunk_text.length <= FOLDED_CHARS ? hit.chunk_text : `${hit.chunk_text.slice(0, FOLDED_CHARS)} …`;
  const facts = [hit.symbol && `${hit.node_type ?? "symbol"} ${hit.symbol}`, hit.scope && `in ${hit.scope}`, hit.title, hit.json_pointer,
    hit.page && `page ${hit.page}`, !hit.embedded && "found by words only"].filter(Boolean);
  return html`<li class="card hit">
    <div class="hit-head">
      <${FileLink} toolId=${toolId} place=${hit} line=${hit.start_line} to=${hit.end_line} q=${q} />
      ${hit.stale && html`<span class="state state-cancelled" title="A newer version of the file is not indexed.">stale</span>`}
      <span class="score" title="Score, from 0 to 1">${hit.score.toFixed(3)}</span>
    </div>
    ${facts.length > 0 && html`<p class="quiet facts-line">${facts.join(" · ")}</p>`}
    ${hit.raptor_summary_preview && html`<p class="quiet">From the summary: ${hit.raptor_summary_preview} …</p>`}
    <div class="texts" tabindex="0" role="region" aria-label=${`Text of ${hit.file_path}, line ${hit.start_line}`}>
      ${around.before.map((piece) => html`<pre class="near" key=${piece.chunk_id}>${marked(piece.chunk_text, words)}</pre>`)}
      <pre>${marked(text, words)}</pre>
      ${around.after.map((piece) => html`<pre class="near" key=${piece.chunk_id}>${marked(piece.chunk_text, words)}</pre>`)}
    </div>
    <${Alert} error=${more.error} />
    <div class="hit-foot">
      ${hit.chunk_text.length > FOLDED_CHARS && html`<${Button} class="plain" onClick=${() => setWhole(!isWhole)}>${isWhole ? "Fold" : "Whole text"}<//>`}
      <${Button} class="plain" action=${more}>Show more around it<//>
      ${hit.url && /^https?:/.test(hit.url) && html`<a href=${hit.url} rel="noreferrer" target="_blank">On the web</a>`}
    </div>
    ${hit.explain && html`<${Explain} score=${hit.score} parts=${hit.explain} />`}
  </li>`;
}

// Parts of the score as bars, scaled so that they add up to it. Ranks do not count as parts: they say where the hit was found.
function Explain({ score, parts }) {
  const all = Object.entries(parts);
  const ranks = all.filter(([name]) => name.endsWith("_rank"));
  // a model's ranking replaces what stood before
  const summed = "rerank" in parts ? [["rerank", parts.rerank]] : all.filter(([name]) => !name.endsWith("_rank"));
  const sum = summed.reduce((total, [, value]) => total + value, 0);
  const shares = summed.map(([name, value]) => [name, sum > 0 ? (value * score) / sum : 0]);
  return html`<div class="explain">
    <table aria-label="Parts of the score"><tbody>
      ${shares.map(([name, value]) => html`<tr key=${name}><th scope="row">${spoken(name)}</th>
        <td class="track-cell"><span class="track"><span class=${value < 0 ? "below" : ""} style=${{ width: `${Math.min(100, Math.abs(value) * 100)}%` }}></span></span></td>
        <td class="number">${value.toFixed(3)}</td></tr>`)}
      <tr class="sum"><th scope="row">score</th><td></td><td class="number">${score.toFixed(3)}</td></tr>
    </tbody></table>
    ${ranks.length > 0 && html`<p class="quiet">Found ${ranks.map(([name, value]) => `as no. ${value} by ${FOUND_BY[name] ?? spoken(name.slice(0, -5))}`).join(", ")}.</p>`}
  </div>`;
}

const FOUND_BY = { vector_rank: "meaning", text_rank: "words", code_rank: "identifiers" };
