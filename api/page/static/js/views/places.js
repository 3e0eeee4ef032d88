// Links into files, and sentences that several views say about an answer.
import { html } from "../../vendor/preact-htm.js";
import { number, plural } from "../format.js";
import { sentenceOf } from "../messages.js";
import { href } from "../router.js";
import { editor } from "../session.js";
import { useStore } from "../store.js";

// The route of a file's text. `where` may name `line`, `to`, `chunk` and the words `q` to mark.
export function fileHref(toolId, place, where = {}) {
  if (place.file_id) return href("tools", toolId, "files", place.file_id, where);
  return href("tools", toolId, "files", "at", { path: place.file_path, ...where });
}

// With `page`, a document is named by it.
export function FileLink({ toolId, place, line, to, chunk, q, page }) {
  const where = { line, to: to === line ? undefined : to, chunk, q };
  const spot = page ? ` page ${page}` : line ? `:${line}` : "";
  return html`<a class="mono path" href=${fileHref(toolId, place, where)}>${place.file_path}${spot}</a>`;
}

// How editors are asked to open a file. The path begins with a slash.
export const EDITORS = {
  vscode: ["VS Code", (path, line) => `vscode://file${path}:${line}`],
  cursor: ["Cursor", (path, line) => `cursor://file${path}:${line}`],
  zed: ["Zed", (path, line) => `zed://file${path}:${line}`],
  idea: ["JetBrains IDEA", (path, line) => `idea://open?file=${path}&line=${line}`],
};

// Opens a file of this machine in the editor that was chosen, if one was.
export function EditorLink({ root, path, line }) {
  const [name, address] = EDITORS[useStore(editor)] ?? [];
  if (!address || !root?.startsWith("/")) return null;
  const encoded = `${root}/${path}`.split("/").map(encodeURIComponent).join("/");
  return html`<a href=${address(encoded, line ?? 1)}>Open in ${name}</a>`;
}

const leftOut = (toolId) => href("tools", toolId, "files", { status: "skipped" });
const lacks = ({ coverage }) => coverage.indexed_files < coverage.total_files;

// What an answer lacks.
export function Notes({ answer, toolId }) {
  const { notes = [], coverage, tools = [] } = answer;
  const isPartial = coverage && coverage.total_files != null && lacks(answer);
  if (!notes.length && !isPartial) return null;
  const counts = coverage && `${number(coverage.indexed_files)} of ${plural(coverage.total_files, "file")} searched`;
  return html`<div class="said quiet" role="note">
    ${isPartial && html`<p>${toolId ? html`<a href=${leftOut(toolId)} title="Why the others are not indexed">${counts}</a>`
      : html`${counts}; why not all: ${tools.filter(lacks).map((part, index) => html`${index > 0 && ", "}<a href=${leftOut(part.tool_id)}>${part.name}</a>`)}`}</p>`}
    ${notes.map((note) => html`<p key=${note.code}>${sentenceOf(note)}</p>`)}
  </div>`;
}

// The values of a field that takes several, separated by commas.
export const listOf = (text) => text.split(",").map((each) => each.trim()).filter(Boolean);
