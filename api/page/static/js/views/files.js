// The files of a tool with their outcomes: counts, filters, the list and the chosen file.
import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { post, toolAt } from "../api.js";
import { bytes, number, plural, words } from "../format.js";
import { useAction } from "../hooks.js";
import { plain, remedyOf } from "../messages.js";
import { Alert, Button, Facts, Field, Select, State } from "../parts.js";
import { go, href } from "../router.js";
import { FileList } from "./file-list.js";
import { fileHref } from "./places.js";

const REASONS = (
  "empty no_text binary too_large unsupported_type not_utf8 needs_ocr encrypted minified generated secret symlink " +
  "not_a_file unreadable parse_failed embedding_refused cost_limit store_refused crashed sidecar"
).split(" ");

// The count of each outcome, as the task tells it.
function outcomes(status) {
  if (!status || status.total_files === null) return [];
  const { total_files: all, indexed_files: indexed, skipped_files: skipped, failed_files: failed } = status;
  const open = Math.max(0, all - indexed - skipped - failed);
  return [["", "All", all], ["indexed", "Indexed", indexed], ["skipped", "Skipped", skipped],
    ["failed", "Failed", failed], ["pending", "Pending", open], ["removed", "Removed", status.removed_files]];
}

export function Files({ toolId, mayWrite, route, status, again }) {
  const { status: outcome = "", reason = "", q = "" } = route.query;
  const [chosen, setChosen] = useState(null);
  const show = (change) => go(href("tools", toolId, "files", { ...route.query, ...change }), { replace: true });
  const counts = outcomes(status);
  const total = reason || q ? null : counts.find(([name]) => name === outcome)?.[2];
  const retry = useAction(async () => {
    await post(toolAt(toolId, "retry"));
    again();
  });
  useEffect(() => setChosen(null), [outcome, reason, q]);
  return html`<h2>Files</h2>
    <nav class="outcomes" aria-label="Outcome">
      ${counts.map(
        ([name, text, count]) => html`<a key=${name} class=${name && `state-${name}`} aria-current=${name === outcome ? "true" : undefined}
          href=${href("tools", toolId, "files", { ...route.query, status: name })}>${text} <b>${number(count)}</b></a>`,
      )}
    </nav>
    <form class="row" role="search" aria-label="Filter the files" onSubmit=${(event) => event.preventDefault()}>
      <${Field} label="Path contains" class="grow" type="search" data-search="" value=${q}
        onInput=${(event) => show({ q: event.target.value })} />
      <${Field} label="Reason">
        ${(own) => html`<${Select} ...${own} value=${reason} onChange=${(event) => show({ reason: event.target.value })}
          options=${[["", "Any"], ...REASONS.map((each) => [each, words(each)])]} />`}
      <//>
      ${mayWrite && status?.failed_files > 0 &&
      html`<${Button} action=${retry} busyText="One moment …">Retry ${plural(status.failed_files, "failed file")}<//>`}
    </form>
    <${Alert} error=${retry.error} />
    <div class="files">
      <${FileList} toolId=${toolId} filter=${{ status: outcome, reason, q }} total=${total} chosen=${chosen}
        onChoose=${setChosen} version=${versionOf(status)} />
      ${chosen && html`<${Details} toolId=${toolId} file=${chosen} onClose=${() => setChosen(null)} />`}
    </div>`;
}

// Changes whenever outcomes change, so that the rows that are shown are loaded again.
function versionOf(status) {
  if (!status) return "";
  return [status.task_id, status.status, status.indexed_files, status.skipped_files, status.failed_files].join(" ");
}

function Details({ toolId, file, onClose }) {
  const seconds = Object.entries(file.timings).map(([name, value]) => `${name} ${value.toFixed(2)} s`);
  return html`<aside class="card file-details" aria-label="The chosen file">
    <h3 class="mono">${file.file_path}</h3>
    <p><${State} value=${file.status} /> ${file.reason && html`<b>${words(file.reason)}</b>`}
      ${file.stale && html` <span class="state state-cancelled">stale</span>`}</p>
    ${file.message && html`<p>${plain(file.message)}</p>`}
    ${file.remedy && html`<p><b>What to do:</b> ${remedyOf(file)}</p>`}
    ${file.stale && html`<p>An older version answers queries, because the newest is not indexed.</p>`}
    <${Facts} rows=${[
      ["Type", file.file_type ?? file.mime],
      ["Language", file.language],
      ["Size", bytes(file.size)],
      ["Chunks", number(file.chunks)],
      ["Tokens", number(file.tokens)],
      ["Attempts", number(file.attempts)],
      ["Found by", file.chunks === 0 ? "nothing" : file.embedded ? "meaning and words" : "words only"],
    ]} />
    ${seconds.length > 0 && html`<p class="quiet">Time: ${seconds.join(", ")}</p>`}
    <div class="actions">
      ${file.chunks > 0 && html`<a class="button" href=${fileHref(toolId, file)}>Show its text and chunks</a>`}
      <${Button} class="plain" onClick=${onClose}>Close<//>
    </div>
  </aside>`;
}
