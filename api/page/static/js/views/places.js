// Links into files, and sentences that several views say about an answer.
import { html } from "../../vendor/preact-htm.js";
import { number } from "../format.js";
import { href } from "../router.js";

// The route of a file's text. `where` may name `line`, `to`, `chunk` and the words `q` to mark.
export function fileHref(toolId, place, where = {}) {
  if (place.file_id) return href("tools", toolId, "files", place.file_id, where);
  return href("tools", toolId, "files", "at", { path: place.file_path, ...where });
}

export function FileLink({ toolId, place, line, to, chunk, q }) {
  const where = { line, to: to === line ? undefined : to, chunk, q };
  return html`<a class="mono path" href=${fileHref(toolId, place, where)}>${place.file_path}${line ? `:${line}` : ""}</a>`;
}

// What an answer lacks, in the sentences of the service.
export function Notes({ answer }) {
  const { notes = [], coverage } = answer;
  const isPartial = coverage && coverage.indexed_files < coverage.total_files;
  if (!notes.length && !isPartial) return null;
  return html`<div class="note" role="note">
    ${isPartial &&
    html`<p>Searched ${number(coverage.indexed_files)} of ${number(coverage.total_files)} files: the others are not indexed.</p>`}
    ${notes.map((note) => html`<p key=${note.code}>${note.detail}</p>`)}
  </div>`;
}

// The values of a field that takes several, separated by commas.
export const listOf = (text) => text.split(",").map((each) => each.trim()).filter(Boolean);
