// One hit: its place and heading, the lines that answer, its neighbours, and why it stands here.
import { html, useMemo, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { words as spoken } from "../format.js";
import { useAction } from "../hooks.js";
import { Alert, Button, Copy } from "../parts.js";
import { colourLines } from "./colours.js";
import { Download } from "./download.js";
import { bestLines, Lines } from "./excerpt.js";
import { hasPicture, PagePicture } from "./page-picture.js";
import { EditorLink, FileLink } from "./places.js";

const MORE_CHUNKS = 2;
// In a document with pages, a reader looks for the page: its lines are those of the text that was read.
const BY_PAGE = (hit) => Boolean(hit.page);

// `folder` names the folder in a list of hits of several. The score is shown where `isCalibrated` says that it is a chance.
export function Hit({ tool, toolId, hit, words, q, folder, isCalibrated }) {
  // the folder's path on the service's machine
  const root = tool?.source.kind === "local" ? tool.place : null;
  const [around, setAround] = useState({ before: [], after: [] });
  const [isWhole, setWhole] = useState(false);
  const more = useAction(async () => {
    const count = around.before.length + MORE_CHUNKS;
    setAround(await get(toolAt(toolId, "chunks", hit.chunk_id), { before: count, after: count }));
    setWhole(true);
  });
  const pieces = (hit.pieces ?? [hit]).map((piece) => ({ ...piece, shown: bestLines(piece.chunk_text, words) }));
  const heading = hit.symbol ? `${hit.node_type ?? "symbol"} ${hit.symbol}` : hit.title;
  const facts = [heading, hit.scope && `in ${hit.scope}`, hit.json_pointer, !hit.embedded && "found by words only"].filter(Boolean);
  const path = root ? `${root}/${hit.file_path}` : hit.file_path;
  return html`<li class="card hit">
    <div class="hit-head">
      ${toolId ? html`<${FileLink} toolId=${toolId} place=${hit} line=${hit.start_line} to=${hit.end_line} q=${q} page=${BY_PAGE(hit) ? hit.page : null} />`
        : html`<span class="mono path">${hit.file_path}</span>`}
      ${folder && html`<span class="kind">${folder}</span>`}
      ${hit.stale && html`<span class="state state-cancelled" title="A newer version of the file is not indexed.">stale</span>`}
      ${isCalibrated && html`<span class="score" title="Score, from 0 to 1">${hit.score.toFixed(3)}</span>`}
    </div>
    ${facts.length > 0 && html`<p class="quiet facts-line">${facts.join(" · ")}</p>`}
    ${hit.raptor_summary_preview && html`<p class="quiet">From the summary: ${hit.raptor_summary_preview} …</p>`}
    <div class="texts" tabindex="0" role="region" aria-label=${`Text of ${hit.file_path}, line ${hit.start_line}`}>
      ${around.before.map((piece) => html`<${Piece} key=${piece.chunk_id} piece=${piece} path=${hit.file_path} words=${words} byPage=${BY_PAGE(hit)} near />`)}
      ${pieces.map((piece) => html`<${Piece} key=${piece.chunk_id} piece=${piece} path=${hit.file_path} words=${words} byPage=${BY_PAGE(hit)} part=${isWhole ? null : piece.shown} />`)}
      ${around.after.map((piece) => html`<${Piece} key=${piece.chunk_id} piece=${piece} path=${hit.file_path} words=${words} byPage=${BY_PAGE(hit)} near />`)}
    </div>
    <${Alert} error=${more.error} />
    <div class="hit-foot">
      ${pieces.some(({ shown }) => shown.isCut) && html`<${Button} class="plain" onClick=${() => setWhole(!isWhole)}>${isWhole ? "Fold" : "Whole text"}<//>`}
      ${toolId && html`<${Button} class="plain" action=${more}>Show more around it<//>`}
      <${Copy} text=${path} aria-label=${`Copy the path of ${hit.file_path}`}>Copy path<//>
      <${Download} class="plain" tool=${tool} path=${hit.file_path} fileId=${hit.file_node_id} nodeOf=${() => hit.file_node_id} which="Download" />
      <${EditorLink} root=${root} path=${hit.file_path} line=${BY_PAGE(hit) ? null : hit.start_line} />
      ${toolId && hasPicture(hit) && html`<${PagePicture} toolId=${toolId} hit=${hit} />`}
      ${hit.url && /^https?:/.test(hit.url) && html`<a href=${hit.url} rel="noreferrer" target="_blank">On the web</a>`}
    </div>
    ${hit.explain && html`<${Explain} score=${hit.score} parts=${hit.explain} />`}
  </li>`;
}

// A chunk, or the part of it that is shown.
function Piece({ piece, path, words, byPage, part, near }) {
  const text = piece.chunk_text.replace(/\n+$/, "");
  const { lines, first } = part ?? { lines: text.split("\n"), first: 0 };
  const start = byPage || !piece.start_line ? null : piece.start_line + first;
  // a comment or string may begin above the part
  const colours = useMemo(() => colourLines(text, path), [text, path])?.slice(first);
  return html`<${Lines} lines=${lines} path=${path} start=${start} words=${words} isWhole=${!part} near=${near} colours=${colours} />`;
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
