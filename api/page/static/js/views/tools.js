// All tools of the project: what each does now, and the way to its views.
import { html, useState } from "../../vendor/preact-htm.js";
import { call, get, post, toolAt } from "../api.js";
import { useAction, useData, useEvery, useStatus } from "../hooks.js";
import { Actions, Alert, Button, Confirm, Empty, Facts, Field, Heading, Loading, State } from "../parts.js";
import { ProjectField } from "../project.js";
import { href } from "../router.js";
import { factsOf, isOpen, Progress, usePrices } from "../running.js";
import { project } from "../session.js";
import { useStore } from "../store.js";

const REFRESH_MS = 4_000;
// Tools followed by a stream. A browser opens few connections to a server, and other calls need some.
const MAX_STREAMS = 3;
const FIRST_TOOLS = 100;
const MAX_TOOLS = 1000;

export function Tools() {
  const chosen = useStore(project);
  const [limit, setLimit] = useState(FIRST_TOOLS);
  const [words, setWords] = useState("");
  const { data, error, reload, refresh } = useData(
    (signal) => get("api/tools/search", { project_id: chosen, limit }, signal),
    [chosen, limit],
  );
  useEvery(REFRESH_MS, refresh);
  const prices = usePrices();
  const found = (data?.items ?? []).filter((tool) => matches(tool, words));
  const streamed = found.filter((tool) => isOpen(tool.task)).slice(0, MAX_STREAMS);
  return html`<${Heading} title="Tools">
      <a class="button primary end" href=${href("new")}>Add a folder</a>
    <//>
    <div class="row filters">
      <${ProjectField} />
      ${data?.items.length > 5 &&
      html`<${Field} class="grow" label="Find a tool" type="search" data-search="" value=${words}
        onInput=${(event) => setWords(event.target.value)} />`}
    </div>
    <${Alert} error=${error} />
    ${!data && !error && html`<${Loading} />`}
    ${data?.items.length === 0 && html`<${First} />`}
    <ul class="tools">
      ${found.map(
        (tool) => html`<${Row} key=${tool.tool_id} tool=${tool} price=${prices[tool.index.model]}
          isStreamed=${streamed.includes(tool)} reload=${reload} />`,
      )}
    </ul>
    ${data?.next_cursor && limit < MAX_TOOLS && html`<${Button} onClick=${() => setLimit(MAX_TOOLS)}>Show more<//>`}`;
}

const matches = (tool, words) => `${tool.name} ${tool.place}`.toLowerCase().includes(words.toLowerCase());

function First() {
  return html`<${Empty} title="Nothing is indexed yet">
    <p>A tool makes one folder searchable: one that this service can read, or files you drop here.</p>
    <p><a class="button primary" href=${href("new")}>Add the first folder</a></p>
  <//>`;
}

function Row({ tool, price, isStreamed, reload }) {
  const [isDeleting, setIsDeleting] = useState(false);
  const live = useStatus(tool.tool_id, isStreamed);
  const polled = useData((signal) => get(toolAt(tool.tool_id, "status"), {}, signal), [tool.tool_id, tool.task]);
  useEvery(REFRESH_MS, () => !isStreamed && isOpen(tool.task) && polled.refresh());
  const action = useAction(async (verb) => {
    await post(toolAt(tool.tool_id, verb));
    polled.reload();
    reload();
  });
  const status = (isStreamed && live.status) || polled.data;
  const state = status?.status ?? tool.task;
  return html`<li class="card tool">
    <div class="tool-name">
      <h2><a href=${href("tools", tool.tool_id)}>${tool.name}</a></h2>
      <${State} value=${state} />
      <p class="place">${tool.place}</p>
    </div>
    ${status && html`<${Facts} rows=${factsOf(status, price)} />`}
    ${status && html`<${Progress} status=${status} name=${tool.name} />`}
    ${status?.error && html`<p class="alert">${status.error}</p>`}
    ${status?.warning && html`<p class="note">${status.warning}</p>`}
    <${Alert} error=${action.error} />
    <${Actions}>
      <a class="button" href=${href("tools", tool.tool_id, "search")} aria-label=${`Search ${tool.name}`}>Search</a>
      ${isOpen(state)
        ? html`<${Button} action=${action} onClick=${() => action.run("cancel")} aria-label=${`Cancel ${tool.name}`}>Cancel<//>`
        : html`<${Button} action=${action} onClick=${() => action.run("reindex")} aria-label=${`Reindex ${tool.name}`}>Reindex<//>`}
      ${!isOpen(state) && status?.failed_files > 0 &&
      html`<${Button} action=${action} onClick=${() => action.run("retry")} aria-label=${`Retry ${tool.name}`}>Retry<//>`}
      <${Button} class="danger" onClick=${() => setIsDeleting(true)} aria-label=${`Delete ${tool.name}`}>Delete<//>
    <//>
    ${isDeleting && html`<${DeleteTool} tool=${tool} onDone=${reload} onClose=${() => setIsDeleting(false)} />`}
  </li>`;
}

export function DeleteTool({ tool, onDone, onClose }) {
  const close = () => (onClose(), onDone());
  return html`<${Confirm} title=${`Delete ${tool.name}?`} verb="Delete the tool" onClose=${onClose} onDone=${close}
    text="Its index is deleted unless another tool shares it. The files themselves stay as they are."
    act=${() => call("DELETE", toolAt(tool.tool_id))} />`;
}
