// Home: one search over all folders, and below it the folders with what each does now.
import { html, useState } from "../../vendor/preact-htm.js";
import { get, post, toolAt } from "../api.js";
import { ago, number, plural } from "../format.js";
import { useAction, useData, useEvery } from "../hooks.js";
import { placeOf, sentenceOf, warningOf } from "../messages.js";
import { Alert, Button, Empty, Field, Heading, Loading, State } from "../parts.js";
import { ProjectField, useMayWrite } from "../project.js";
import { forgetQuestions, keepQuestion, recentQuestions } from "../recent.js";
import { go, href } from "../router.js";
import { isOpen, Progress } from "../running.js";
import { project } from "../session.js";
import { useStore } from "../store.js";
import { AcrossAnswer } from "./across.js";
import { Spark } from "./run-pictures.js";

const BUSY_MS = 1_500;
const QUIET_MS = 4_000;
const FIRST = 100;
const MOST = 1000;
// From here on the list has a field that narrows it.
const MANY = 8;

export function Home({ route }) {
  const chosen = useStore(project);
  const [limit, setLimit] = useState(FIRST);
  const folders = useData((signal) => foldersOf({ project_id: chosen, limit }, signal), [chosen, limit]);
  const rows = folders.data?.rows ?? [];
  useEvery(rows.some(({ status }) => isOpen(status?.status)) ? BUSY_MS : QUIET_MS, folders.refresh);
  const { q } = route.query;
  const mayWrite = useMayWrite();
  return html`<${Heading} title="Search your folders" />
    <${Ask} key=${q ?? ""} q=${q ?? ""} isAsked=${Boolean(q)} />
    ${q && folders.data && html`<${AcrossAnswer} q=${q} tools=${rows.map(({ tool }) => tool)} query=${route.query} />`}
    <section class="folders" aria-label="Folders">
      <div class="heading"><h2>Folders</h2><${ProjectField} />${mayWrite && rows.length > 0 && html`<a class="button end" href=${href("new")}>Add a folder</a>`}</div>
      <${Alert} error=${folders.error} />
      ${!folders.data && !folders.error && html`<${Loading} />`}
      ${folders.data && !rows.length && html`<${Empty} title="Nothing is indexed yet">
        ${mayWrite ? html`<p>Add a folder of this machine, or files that you drop here. You can search it while it is being read.</p>
          <p><a class="button primary" href=${href("new")}>Add the first folder</a></p>` : html`<p>Your key may only search. Ask for a folder to be added.</p>`}
      <//>`}
      ${rows.length > 0 && html`<${Rows} rows=${rows} reload=${folders.reload} mayWrite=${mayWrite} />`}
      ${folders.data?.isMore && limit < MOST && html`<${Button} onClick=${() => setLimit(MOST)}>Show more<//>`}
    </section>`;
}

// All folders, each with the state of its newest run.
async function foldersOf(query, signal) {
  const [tools, statuses] = await Promise.all([
    get("api/tools/search", query, signal),
    get("api/tools/search/statuses", query, signal),
  ]);
  const byTool = new Map(statuses.items.map((status) => [status.tool_id, status]));
  return { rows: tools.items.map((tool) => ({ tool, status: byTool.get(tool.tool_id) })), isMore: Boolean(tools.next_cursor) };
}

// The question, and those that were asked before in this browser.
function Ask({ q, isAsked }) {
  const [text, setText] = useState(q);
  const [recent, setRecent] = useState(recentQuestions());
  const ask = (event) => {
    event.preventDefault();
    keepQuestion(text.trim());
    go(text.trim() ? href({ q: text.trim() }) : "#/");
  };
  return html`<form class="search ask" role="search" aria-label="Search all folders" onSubmit=${ask}>
      <div class="row">
        <${Field} label="Question" class="grow" type="search" data-search="" autocomplete="off" maxlength="10000" value=${text}
          placeholder="Ask in your own words, or name what you look for" onInput=${(event) => setText(event.target.value)} />
        <${Button} type="submit" class="primary">Search<//>
      </div>
    </form>
    ${!isAsked && recent.length > 0 && html`<nav class="recent" aria-label="Recent questions">
      ${recent.map((each) => html`<a key=${each} href=${href({ q: each })}>${each}</a>`)}
      <${Button} class="plain" onClick=${() => setRecent(forgetQuestions())}>Forget them<//>
    </nav>`}`;
}

function Rows({ rows, reload, mayWrite }) {
  const [words, setWords] = useState("");
  const found = rows.filter(({ tool }) => `${tool.name} ${placeOf(tool)}`.toLowerCase().includes(words.toLowerCase()));
  return html`${rows.length > MANY && html`<${Field} label="Find a folder" type="search" value=${words} onInput=${(event) => setWords(event.target.value)} />`}
    <ul class="folder-rows">${found.map((row) => html`<${Row} key=${row.tool.tool_id} ...${row} reload=${reload} mayWrite=${mayWrite} />`)}</ul>`;
}

function Row({ tool, status, reload, mayWrite }) {
  const action = useAction(async (verb) => (await post(toolAt(tool.tool_id, verb)), reload()));
  const state = status?.status ?? tool.task;
  const verb = (name, text) => html`<${Button} class="plain" action=${action} onClick=${() => action.run(name)} aria-label=${`${text} ${tool.name}`}>${text}<//>`;
  return html`<li class="folder-row">
    <div class="folder-name"><a href=${href("tools", tool.tool_id)}>${tool.name}</a><span class="place">${placeOf(tool)}</span></div>
    <span class="folder-state"><${State} value=${state} /></span>
    <${Spark} toolId=${tool.tool_id} name=${tool.name} status=${status} />
    <span class="number">${status && status.searchable_files !== null && plural(status.searchable_files, "file")}</span>
    <span class="quiet age">${ago(status?.finished_at ?? tool.updated_at)}</span>
    <span class="verbs">
      <a href=${href("tools", tool.tool_id, "search")} aria-label=${`Search ${tool.name}`}>Search</a>
      ${mayWrite && (isOpen(state) ? verb("cancel", "Cancel") : ["cancelled", "error"].includes(state) ? verb("reindex", "Continue") : verb("reindex", "Update"))}
    </span>
    ${status && isOpen(state) && html`<${Progress} status=${status} name=${tool.name} />`}
    ${status?.failed_files > 0 && html`<p class="row-said"><a href=${href("tools", tool.tool_id, "files", { status: "failed" })}>${number(status.failed_files)} not read</a></p>`}
    ${status?.error && html`<p class="row-said bad">${sentenceOf({ code: status.error_code, detail: status.error })}</p>`}
    ${status?.warning && html`<p class="row-said quiet">${warningOf(status.warning)}</p>`}
    <${Alert} error=${action.error} />
  </li>`;
}
