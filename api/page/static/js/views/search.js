// Search: the question and its options, the steps while it runs, and the hits.
import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { Problem, follow, get, toolAt } from "../api.js";
import { number, plural } from "../format.js";
import { useData } from "../hooks.js";
import { epoch } from "../session.js";
import { useStore } from "../store.js";
import { Alert, Button, Empty, Field, Select } from "../parts.js";
import { go, href } from "../router.js";
import { Facets, narrowed, useArrows } from "./across.js";
import { Hit } from "./hit.js";
import { FileLink, Notes, listOf } from "./places.js";
import { Scores } from "./scores.js";
import { wordsOf } from "./marks.js";
import { Timeline } from "./trace.js";

const MODES = [["hybrid", "Meaning and words"], ["vector", "Meaning"], ["keyword", "Words"]];
const TREES = [["off", "No summaries"], ["collapsed", "All levels at once"], ["tree_traversal", "From the top down"]];
const OPTIONS = ["tree", "path", "types", "languages", "after", "before", "top_k", "least", "grouped", "explain"];

// The request of a route. What is not chosen is left to the service.
function requestOf({ q, mode, tree, path, types = "", languages = "", after, before, where, top_k: topK, grouped, explain }) {
  const day = (text) => (text ? `${text}T00:00:00Z` : undefined);
  return {
    query: q,
    mode: mode || undefined,
    tree: tree || undefined,
    expand_to_leaves: tree && tree !== "off" ? explain !== "1" : undefined,
    top_k: Number(topK) || undefined,
    group_by_file: grouped === "1" || undefined,
    explain: explain === "1" && !(tree && tree !== "off") ? true : undefined,
    trace: true,
    filters: {
      path: path || undefined,
      types: types ? listOf(types) : undefined,
      languages: languages ? listOf(languages) : undefined,
      modified_after: day(after),
      modified_before: day(before),
      metadata: chosenOf(where),
    },
  };
}

// The chosen values by key, which the address holds as JSON.
function chosenOf(where) {
  try {
    const chosen = JSON.parse(where);
    if (chosen && typeof chosen === "object" && !Array.isArray(chosen)) return chosen;
  } catch {}
  return {};
}

// Ask the question of the route: { answer, steps, busy, error }. The answer to an older question is never shown.
function useAnswer(toolId, query) {
  const [state, setState] = useState({ answer: null, steps: [], busy: false, error: null });
  // the page itself narrows by facets
  const asked = JSON.stringify({ ...query, type: undefined, language: undefined });
  const now = useStore(epoch);
  useEffect(() => {
    if (!query.q) return setState({ answer: null, steps: [], busy: false, error: null });
    const stop = new AbortController();
    const change = (next) => stop.signal.aborted || setState((old) => ({ ...old, ...next(old) }));
    change(() => ({ steps: [], busy: true, error: null }));
    const onEvent = (data, name) => {
      if (name === "step") change((old) => ({ steps: [...old.steps, data] }));
      else if (name === "answer") change(() => ({ answer: { ...data, asked: query }, busy: false }));
      else if (name === "error") change(() => ({ error: new Problem(data), busy: false }));
    };
    follow(toolAt(toolId, "query"), onEvent, stop.signal, requestOf(query)).then(
      () => change(({ busy }) => (busy ? { busy: false, error: new Problem({ detail: "The answer broke off; search again." }) } : {})),
      (error) => change(() => ({ error, busy: false })),
    );
    return () => stop.abort();
  }, [toolId, asked, now]);
  return state;
}

export function Search({ tool, toolId, route, status }) {
  const { query } = route;
  const { answer, steps, busy, error } = useAnswer(toolId, query);
  return html`<${Form} key=${toolId} toolId=${toolId} query=${query} busy=${busy} />
    <${MetadataFacets} tool=${tool} toolId=${toolId} query=${query} />
    <${Alert} error=${error}>
      ${error?.code === "no_tree" && html`<p><a href=${href("tools", toolId, "tree")}>Build the tree of summaries.</a></p>`}
    <//>
    <div role="status">
      ${busy && html`<p class="quiet">Searching … ${steps.map((each) => `${each.step} (${number(Math.round(each.took_ms))} ms)`).join(", ")}</p>`}
    </div>
    ${!query.q && html`<p class="quiet">Ask in your own words, or name what you look for. Words between quotes must stand together.</p>`}
    ${answer && query.q && !error && html`<${Answer} tool=${tool} toolId=${toolId} answer=${answer} query=${query} status=${status} busy=${busy} />`}`;
}

const shownOf = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value)).slice(0, 40);

// The most frequent values of the keys that the folder declares, to narrow the search by.
function MetadataFacets({ tool, toolId, query }) {
  const declared = JSON.stringify(tool.config.metadata ?? {});
  const { data } = useData(async (signal) => declared.length > 2 && get(toolAt(toolId, "metadata"), { values: 8 }, signal), [toolId, declared]);
  const chosen = chosenOf(query.where);
  // chosen ones that are not among these come first, so that each can be taken back
  const items = data ? data.items : [];
  const others = Object.keys(chosen).filter((key) => !items.some((each) => each.key === key)).map((key) => ({ key, values: [] }));
  const isMissing = ({ key, values }) => Object.hasOwn(chosen, key) && !values.some(({ value }) => value === chosen[key]);
  const keys = [...others, ...items]
    .map((each) => (isMissing(each) ? { ...each, values: [{ value: chosen[each.key] }, ...each.values] } : each))
    .filter(({ values }) => values.length);
  const to = (next) => href("tools", toolId, "search", { ...query, where: JSON.stringify(next) === "{}" ? undefined : JSON.stringify(next) });
  return html`<div class="facets">${keys.map(({ key, values }) => html`<nav class="outcomes" key=${key} aria-label=${key}>
    <span class="quiet">${key}</span>
    ${values.map(({ value, files }) => html`<a key=${String(value)} aria-current=${chosen[key] === value ? "true" : undefined}
      href=${to({ ...chosen, [key]: chosen[key] === value ? undefined : value })}>${shownOf(value)} ${files && number(files)}</a>`)}
  </nav>`)}</div>`;
}

function Form({ toolId, query, busy }) {
  const [text, setText] = useState(query.q ?? "");
  const [draft, setDraft] = useState(query);
  const chosen = OPTIONS.filter((name) => query[name] && query[name] !== "off").length;
  // links and the history change the question as well
  useEffect(() => (setText(query.q ?? ""), setDraft(query)), [JSON.stringify(query)]);
  const ask = (event) => {
    event.preventDefault();
    go(href("tools", toolId, "search", { ...draft, q: text.trim(), type: undefined, language: undefined }));
  };
  const option = (name) => ({ value: draft[name] ?? "", onInput: (event) => setDraft({ ...draft, [name]: event.target.value }) });
  const check = (name) => ({ type: "checkbox", class: "check", checked: draft[name] === "1",
    onChange: (event) => setDraft({ ...draft, [name]: event.target.checked ? "1" : "" }) });
  const choice = (label, name, options) => html`<${Field} label=${label}>
    ${(own) => html`<${Select} ...${own} options=${options} value=${draft[name] ?? options[0][0]} onChange=${option(name).onInput} />`}<//>`;
  return html`<form class="search card" role="search" aria-label="Search this folder" onSubmit=${ask}>
    <div class="row">
      <${Field} label="Question" class="grow" type="search" data-search="" autocomplete="off" maxlength="10000" value=${text}
        onInput=${(event) => setText(event.target.value)} />
      ${choice("Search by", "mode", MODES)}
      <${Button} type="submit" class="primary" aria-busy=${busy ? "true" : undefined}>Search<//>
    </div>
    <details>
      <summary>Filters and options${chosen > 0 && ` (${chosen} chosen)`}</summary>
      <div class="options">
        <${Field} label="Path" placeholder="docs/**/*.md" help="A pattern; with ! all other files." ...${option("path")} />
        <${Field} label="Types" placeholder="code, pdf, .md" help="Separated by commas." ...${option("types")} />
        <${Field} label="Languages" placeholder="python, go" help="Separated by commas." ...${option("languages")} />
        <${Field} label="Changed on or after" type="date" ...${option("after")} />
        <${Field} label="Changed before" type="date" ...${option("before")} />
        <${Field} label="Hits at most" type="number" min="1" max="200" placeholder="10" ...${option("top_k")} />
        <${Field} label="Score at least" type="number" min="0" max="1" step="0.01" placeholder="0" ...${option("least")} />
        ${choice("Tree of summaries", "tree", TREES)}
        <${Field} label="One hit per file" ...${check("grouped")} />
        <${Field} label="Explain the scores" ...${check("explain")} help="With a tree: list the summaries that were found." />
      </div>
    </details>
  </form>`;
}

function Answer({ tool, toolId, answer, query, status, busy }) {
  const list = useRef(null);
  useArrows(list);
  const words = wordsOf(answer.query);
  const { results: all, summaries = [] } = answer;
  const isCalibrated = answer.calibrated;
  // hits below the least score are hidden here, so that their scores can still be seen
  const least = isCalibrated ? Number(answer.asked.least) || 0 : 0;
  const kept = all.filter(({ score }) => score >= least);
  const results = narrowed(kept, query);
  return html`<section aria-label="Answer" class=${busy ? "answer older" : "answer"} ref=${list}>
    <div class="heading"><h2>${plural(results.length, "hit")}</h2><span class="quiet">in ${number(Math.round(answer.took_ms))} ms</span></div>
    <${Notes} answer=${answer} toolId=${toolId} />
    ${kept.length < all.length && html`<p class="quiet">${plural(all.length - kept.length, "hit")} below the score ${least.toFixed(2)} ${all.length - kept.length === 1 ? "is" : "are"} hidden. <a href=${href("tools", toolId, "search", { ...answer.asked, least: "" })}>Show all.</a></p>`}
    ${isCalibrated ? html`<${Scores} scores=${all.map(({ score }) => score)} least=${least} />` : answer.asked.least && html`<p class="quiet">Scores are no chances with this model, so no hit is hidden.</p>`}
    ${all.length === 0 && summaries.length === 0 && html`<${Nothing} toolId=${toolId} asked=${answer.asked} status=${status} />`}
    ${summaries.length > 0 && html`<h3>Summaries</h3><ul class="plain-list">${summaries.map((each) => html`<li class="card hit" key=${each.node_id}>
      <div class="hit-head"><b>Level ${each.level}</b></div>
      <p>${each.text}</p>
      <p class="quiet">${each.file_paths.slice(0, 5).map((path) => html`<${FileLink} toolId=${toolId} place=${{ file_path: path }} /> `)}</p></li>`)}</ul>`}
    <${Facets} hits=${kept} query=${query} place=${["tools", toolId, "search"]} />
    <ol class="plain-list">${results.map((hit) => html`<${Hit} key=${hit.chunk_id} tool=${tool} toolId=${toolId} hit=${hit} words=${words} q=${answer.query} isCalibrated=${isCalibrated} />`)}</ol>
    <${Timeline} steps=${answer.trace ?? []} tookMs=${answer.took_ms} />
  </section>`;
}

// Nothing was found: what to try.
function Nothing({ toolId, asked, status }) {
  const isFiltered = ["path", "types", "languages", "after", "before", "where"].some((name) => asked[name]);
  const isIndexing = status && ["pending", "indexing"].includes(status.status);
  return html`<${Empty} title="Nothing found">
    <ul>
      ${isIndexing && html`<li>The folder is still being indexed: search again in a moment.</li>`}
      ${isFiltered && html`<li><a href=${href("tools", toolId, "search", { q: asked.q, mode: asked.mode })}>Search without filters.</a></li>`}
      ${asked.mode === "keyword" && html`<li><a href=${href("tools", toolId, "search", { ...asked, mode: "hybrid" })}>Search by meaning too.</a></li>`}
      <li><a href=${href("tools", toolId, "grep", { pattern: asked.q })}>Look for the exact text with grep.</a></li>
      <li><a href=${href("tools", toolId, "files", { status: "failed" })}>See which files are not indexed, and why.</a></li>
    </ul>
  <//>`;
}
