// What the workers do now: what waits, what runs and how fast, what may be spent, and whether the models answer.
import { html, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { clock, compact, dollars, duration, number } from "../format.js";
import { useAction, useData, useEvery } from "../hooks.js";
import { Alert, Button, Facts, Heading, Loading, State } from "../parts.js";
import { useAccess } from "../project.js";
import { href } from "../router.js";
import { isOpen, Progress, speed } from "../running.js";
import { flowerTask } from "./overview.js";

const REFRESH_MS = 2_000;
// How long an answer of a model is shown.
const CHECK_MS = 10_000;

export function Workers() {
  const queue = useData(backlog, []);
  const running = useData(openTasks, []);
  const models = useData((signal) => get("api/models", {}, signal), []);
  const access = useAccess();
  useEvery(REFRESH_MS, () => [queue, running, models].forEach((each) => each.refresh()));
  return html`<${Heading} title="Workers">
      ${access?.flower_url && html`<a class="button end" href=${access.flower_url} target="_blank" rel="noreferrer">Open Flower</a>`}
    <//>
    <div class="stack">
      <section class="card" aria-label="Queue">
        <h2>Queue</h2>
        <${Alert} error=${queue.error} />
        ${queue.data ? html`<${Queue} ...${queue.data} />` : !queue.error && html`<${Loading} />`}
      </section>
      <section class="card" aria-label="Running">
        <h2>Running</h2>
        <${Alert} error=${running.error} />
        ${running.data?.length === 0 && html`<p class="quiet">Nothing is being indexed.</p>`}
        <ul class="plain-list">${running.data?.map((row) => html`<${Task} key=${row.tool.tool_id} ...${row} flower=${access?.flower_url} />`)}</ul>
      </section>
      <${Budgets} models=${models.data?.items ?? []} />
      <${Models} ...${models} />
    </div>`;
}

function Queue({ tasks, files, deletions, oldest, warning, at }) {
  return html`<${Facts}
      rows=${[
        ["Tasks waiting", number(tasks.pending ?? 0)],
        ["Tasks running", number(tasks.indexing ?? 0)],
        ["Files waiting", number(files)],
        ["Vectors to delete", number(deletions)],
        ["Oldest task", oldest > 0 ? duration(oldest) : "none"],
        ["As of", clock(at)],
      ]}
    />
    ${warning && html`<p class="note">${warning}</p>`}`;
}

function Task({ tool, status, flower }) {
  const pace = speed(status);
  return html`<li class="task">
    <h3><a href=${href("tools", tool.tool_id)}>${tool.name}</a> <${State} value=${status.status} /></h3>
    <${Progress} status=${status} name=${tool.name} />
    <${Facts}
      rows=${[
        status.total_files !== null && ["Files", `${number(status.indexed_files)} of ${number(status.total_files)}`],
        pace && ["Rate", `${compact(pace.chunks)} chunks/s`],
        pace && ["Tokens", `${compact(pace.tokens * 60)} a minute`],
        ["Model", tool.index.model],
        flower && ["Task", html`<a href=${flowerTask(flower, status.task_id)} target="_blank" rel="noreferrer">in Flower</a>`],
      ]}
    />
    ${status.warning && html`<p class="note">${status.warning}</p>`}
  </li>`;
}

// Models of providers that are used by default, or that workers use or wait for now.
function Budgets({ models }) {
  const used = models.filter(({ budget, ...model }) => budget && (model.default || budget.active_projects || budget.failures || budget.reason));
  if (!used.length) return null;
  return html`<section class="card" aria-label="Budget">
    <h2>Budget of the provider</h2>
    <ul class="plain-list">${used.map((model) => html`<${Budget} key=${model.model + model.kind} ...${model} />`)}</ul>
  </section>`;
}

function Budget({ model, kind, budget }) {
  const wait = Math.max(1, Math.ceil((new Date(budget.blocked_until) - Date.now()) / 1000));
  return html`<li class="task">
    <h3><span class="mono">${model}</span> <span class="quiet">${kind}</span></h3>
    <${Facts}
      rows=${[
        ...allowance("Requests", budget.requests_per_minute, budget.requests_left, budget.window_seconds),
        ...allowance("Tokens", budget.tokens_per_minute, budget.tokens_left, budget.window_seconds),
        ["Projects that ask", number(budget.active_projects)],
        ["Failures in a row", number(budget.failures)],
      ]}
    />
    ${budget.blocked_until && html`<p class="note">${budget.reason}. Workers ask again in ${duration(wait)}.</p>`}
    ${budget.failures === null && html`<p class="note">Redis does not answer, so what is left is unknown.</p>`}
  </li>`;
}

function allowance(name, limit, left, seconds) {
  if (limit === null) return [[name, "unlimited"]];
  const part = Math.max(1, Math.floor((limit * seconds) / 60));
  return [[`${name} a minute`, number(limit)], [`Left in ${seconds} s`, `${number(left)} of ${number(part)}`]];
}

function Models({ data, error }) {
  const [checked, setChecked] = useState(null);
  const check = useAction(async () => setChecked(await get("api/models", { check: true })));
  const at = checked?.items.map((model) => model.check?.checked_at).filter(Boolean).sort()[0];
  // what was so longer ago says nothing of now
  useEvery(1_000, () => at && Date.now() - new Date(at) > CHECK_MS && setChecked(null));
  const items = (checked ?? data)?.items;
  return html`<section class="card" aria-label="Models">
    <h2>Models</h2>
    <${Alert} error=${error ?? check.error} />
    ${items && html`<div class="scrolls" tabindex="0" role="region" aria-label="Table of models">
      <table>
        <thead><tr><th scope="col">Model</th><th scope="col">For</th><th scope="col" class="number">Price of a million tokens</th><th scope="col">Answers</th></tr></thead>
        <tbody>
          ${items.map(
            (model) => html`<tr key=${model.model + model.kind}>
              <td class="mono">${model.model}${model.default && html` <span class="quiet">default</span>`}</td>
              <td>${model.kind}</td><td class="number">${dollars(model.input_price)}</td>
              <td>${answers(model.check)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`}
    <div class="actions"><${Button} action=${check} busyText="Asking …">Check that they answer<//>${at && html`<span class="quiet">As of ${clock(at)}.</span>`}</div>
  </section>`;
}

function answers(check) {
  if (!check) return "not checked";
  return check.ok ? `yes, in ${Math.round(check.took_ms)} ms` : check.detail;
}

// The queue, from the metrics and the probe, which need no key.
async function backlog(signal) {
  const [text, ready] = await Promise.all([fetch("metrics", { signal }).then((answer) => answer.text()), get("readyz", {}, signal)]);
  const rows = [...text.matchAll(/^(foldex_\w+)(?:\{status="(\w+)"\})? ([\d.e+-]+)$/gm)];
  const value = (name) => Number(rows.find(([, each]) => each === name)?.[3] ?? 0);
  const at = new Date();
  const tasks = Object.fromEntries(rows.filter(([, name]) => name === "foldex_tasks").map(([, , status, count]) => [status, Number(count)]));
  return {
    at,
    tasks,
    files: value("foldex_files_pending"),
    deletions: value("foldex_tombstones"),
    oldest: value("foldex_oldest_task_seconds"),
    warning: ready.warning,
  };
}

async function openTasks(signal) {
  const { items } = await get("api/tools/search", { limit: 1000 }, signal);
  const open = items.filter((tool) => isOpen(tool.task) || tool.updating).slice(0, 50);
  return Promise.all(open.map(async (tool) => ({ tool, status: await get(toolAt(tool.tool_id, "status"), {}, signal) })));
}
