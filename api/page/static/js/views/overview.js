// One tool: what it does now, what can be done with it, and its past runs.
import { html, useState } from "../../vendor/preact-htm.js";
import { get, post, toolAt } from "../api.js";
import { duration, number, plural, time, words } from "../format.js";
import { EstimateFacts } from "../estimate.js";
import { useAction, useData, useEvery } from "../hooks.js";
import { Actions, Alert, Button, Facts, Loading, State } from "../parts.js";
import { sentenceOf, warningOf } from "../messages.js";
import { useAccess } from "../project.js";
import { go, href } from "../router.js";
import { cost, factsOf, isOpen, Progress, speed, usePrices } from "../running.js";
import { DeleteTool } from "./delete-tool.js";
import { RunsOverTime } from "./run-pictures.js";

const NOW_MS = 2_000;
const RENEWAL = { full: true, renew_text: true };

export function Overview({ tool, toolId, mayWrite, status, reload, again }) {
  const prices = usePrices();
  const price = prices[tool.index.model];
  const access = useAccess();
  const runs = useData((signal) => get(toolAt(toolId, "tasks"), { limit: 20 }, signal), [toolId, status?.task_id, status?.status]);
  if (!status) return html`<${Loading} />`;
  return html`<div class="stack">
    <section class="card" aria-label="Index">
      <${Progress} status=${status} name=${tool.name} />
      ${isOpen(status.status) && html`<${ReadNow} toolId=${toolId} />`}
      <${Facts} rows=${[...factsOf(status, price), ["Model", tool.index.model]]} />
      ${status.error && html`<p class="alert" role="alert">${sentenceOf({ code: status.error_code, detail: status.error })}</p>`}
      ${status.warning && html`<p class="note">${warningOf(status.warning)}</p>`}
      ${status.failed_files > 0 &&
      html`<p><a href=${href("tools", toolId, "files", { status: "failed" })}>See ${plural(status.failed_files, "failed file")}</a> with the reason and the remedy.</p>`}
      ${status.rerun && html`<p class="quiet">Another run follows this one.</p>`}
      <${Updating} tool=${tool} />
      <${Ignored} rules=${status.ignored} />
      <${Verbs} tool=${tool} toolId=${toolId} mayWrite=${mayWrite} status=${status} reload=${reload} again=${again} />
    </section>
    <section class="card" aria-label="Runs">
      <h2>Runs</h2>
      <${Alert} error=${runs.error} />
      ${runs.data && html`<${RunsOverTime} runs=${runs.data.items} price=${price} /><${Runs} runs=${runs.data.items} price=${price} flower=${access?.flower_url} />`}
    </section>
  </div>`;
}

// The files that workers read just now.
function ReadNow({ toolId }) {
  const { data, refresh } = useData((signal) => get(toolAt(toolId, "files"), { status: "indexing", limit: 3 }, signal), [toolId]);
  useEvery(NOW_MS, refresh);
  if (!data?.items.length) return null;
  return html`<p class="quiet">Reading ${data.items.map((file, index) => html`${index > 0 && ", "}<span class="mono">${file.file_path}</span>`)}${data.next_cursor && " and others"}</p>`;
}

function Verbs({ tool, toolId, mayWrite, status, reload, again }) {
  const [isDeleting, setIsDeleting] = useState(false);
  const action = useAction(async (verb, body) => {
    await post(toolAt(toolId, verb), body);
    again();
    reload();
  });
  const held = status.held_removals;
  const button = (text, verb, body, kind = "") =>
    mayWrite && html`<${Button} class=${kind} action=${action} onClick=${() => action.run(verb, body)}>${text}<//>`;
  return html`<${Alert} error=${action.error} />
    ${held > 0 &&
    html`<div class="note">
      <p>${plural(held, "file")} vanished from the folder and ${held === 1 ? "is" : "are"} kept until you allow the removal.</p>
      <div class="actions">${button("Remove them from the index", "reindex", { allow_removals: true })}</div>
    </div>`}
    <${Actions}>
      <a class="button primary" href=${href("tools", toolId, "search")}>Search</a>
      ${isOpen(status.status)
        ? button("Cancel", "cancel")
        : html`${button(["cancelled", "error"].includes(status.status) ? "Continue" : "Update", "reindex", {})}${button("Read every file again", "reindex", { full: true })}`}
      ${!isOpen(status.status) && status.failed_files > 0 && button("Retry", "retry")}
      ${mayWrite && html`<${Button} class="danger" onClick=${() => setIsDeleting(true)}>Delete<//>`}
    <//>
    ${mayWrite && !isOpen(status.status) && !tool.index.file_stems && !tool.updating &&
    html`<${Renewal} toolId=${toolId} button=${button("Embed the code again", "reindex", RENEWAL)} />`}
    ${isDeleting && html`<${DeleteTool} tool=${tool} onDone=${() => go("#/")} onClose=${() => setIsDeleting(false)} />`}`;
}

// For an index that was made before code was embedded with the names of files: what it costs to change that.
function Renewal({ toolId, button }) {
  const [estimate, setEstimate] = useState(null);
  const ask = useAction(async () => setEstimate(await post(toolAt(toolId, "reindex"), { ...RENEWAL, dry_run: true })));
  return html`<details>
    <summary>Code is embedded without the name of its file</summary>
    <p class="help">New indexes put the name in front. This one answers until another one, built beside it, is ready.</p>
    <${Alert} error=${ask.error} />
    ${estimate ? html`<${EstimateFacts} estimate=${estimate} /><div class="actions">${button}</div>` : html`<${Button} action=${ask} onClick=${() => ask.run()}>See what it costs<//>`}
  </details>`;
}

function Updating({ tool }) {
  const { updating, update_error: error } = tool;
  return html`${updating &&
    html`<p class="quiet">A changed index is being built (${updating.index.model}). The present one answers until it is ready.</p>`}
    ${error && html`<p class="alert" role="alert">The new index was not completed, so the present one answers on: ${sentenceOf({ detail: error })}</p>`}`;
}

function Ignored({ rules }) {
  const rows = Object.entries(rules ?? {});
  if (!rows.length) return null;
  return html`<details>
    <summary>Left out by rules: ${number(rows.reduce((sum, [, count]) => sum + count, 0))}</summary>
    <${Facts} rows=${rows.map(([rule, count]) => [words(rule), number(count)])} />
  </details>`;
}

function Runs({ runs, price, flower }) {
  return html`<div class="scrolls" tabindex="0" role="region" aria-label="Table of runs">
    <table>
      <thead>
        <tr>
          <th scope="col">Began</th><th scope="col">Why</th><th scope="col">State</th>
          <th scope="col" class="number">Embedded</th><th scope="col" class="number">Reused</th>
          <th scope="col" class="number">Tokens</th><th scope="col" class="number">Cost</th>
          <th scope="col" class="number">Took</th>${flower && html`<th scope="col">Task</th>`}
        </tr>
      </thead>
      <tbody>
        ${runs.map(
          (run) => html`<tr key=${run.task_id}>
            <td>${time(run.started_at ?? run.created_at)}</td><td class="word">${run.kind}</td>
            <td><${State} value=${run.status} />${run.error && html`<p class="help">${sentenceOf({ code: run.error_code, detail: run.error })}</p>`}</td>
            <td class="number">${number(run.embedded_chunks)}</td><td class="number">${number(run.reused_chunks)}</td>
            <td class="number">${number(run.tokens)}</td><td class="number">${cost(run, price)}</td>
            <td class="number">${duration(speed(run)?.seconds)}</td>
            ${flower && html`<td><a href=${flowerTask(flower, run.task_id)} target="_blank" rel="noreferrer">Flower</a></td>`}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

// Flower searches in the arguments of its tasks, which name the id.
export const flowerTask = (flower, taskId) => `${flower}/tasks?name=${encodeURIComponent(`foldex ${taskId}`)}`;
