// The answer of all folders to one question, best first, and what narrows it.
import { html, useEffect, useRef } from "../../vendor/preact-htm.js";
import { call } from "../api.js";
import { number, plural } from "../format.js";
import { useData } from "../hooks.js";
import { Alert, Empty } from "../parts.js";
import { href } from "../router.js";
import { Hit } from "./hit.js";
import { wordsOf } from "./marks.js";
import { Notes } from "./places.js";

// Folders of one call, and calls of one question.
const CALL_TOOLS = 16;
const MAX_CALLS = 6;
const TOP_K = 20;

// Folders of one project are searched together.
export function callsOf(tools) {
  const calls = [];
  for (const id of new Set(tools.map((tool) => tool.project_id))) {
    const own = tools.filter((tool) => tool.project_id === id).map((tool) => tool.tool_id);
    for (let at = 0; at < own.length; at += CALL_TOOLS) calls.push({ project_id: id, tool_ids: own.slice(at, at + CALL_TOOLS) });
  }
  return calls.slice(0, MAX_CALLS);
}

export async function answerOf(q, calls, signal) {
  const began = performance.now();
  const answers = await Promise.all(calls.map((body) => call("POST", "api/search", { body: { ...body, query: q, top_k: TOP_K }, signal })));
  const sum = (name) => answers.reduce((total, { coverage }) => total == null || coverage[name] == null ? null : total + coverage[name], 0);
  return {
    query: q,
    results: byRank(answers.map(({ results }) => results)).slice(0, TOP_K),
    notes: answers.flatMap(({ notes }) => notes),
    tools: answers.flatMap((answer) => answer.tools ?? []),
    coverage: { indexed_files: sum("indexed_files"), total_files: sum("total_files") },
    took_ms: performance.now() - began,
  };
}

// Scores of several answers cannot be compared: first the best hit of each, then the second.
const byRank = (lists) => lists.flatMap((hits) => hits.map((hit, rank) => ({ hit, rank }))).sort((one, other) => one.rank - other.rank).map(({ hit }) => hit);

export function AcrossAnswer({ q, tools, query }) {
  const calls = callsOf(tools);
  const { data, error, loading } = useData((signal) => answerOf(q, calls, signal), [q, JSON.stringify(calls)]);
  if (!tools.length) return null;
  const left = tools.length - calls.reduce((sum, { tool_ids }) => sum + tool_ids.length, 0);
  return html`${left > 0 && html`<p class="note" role="note">${plural(left, "folder is", "folders are")} not searched, as there are so many. Choose a project, or search one folder.</p>`}
    <${Alert} error=${error} />
    <div role="status">${loading && data?.query !== q && html`<p class="quiet">Searching …</p>`}</div>
    ${data?.query === q && html`<${Hits} answer=${data} tools=${tools} query=${query} />`}`;
}

// What hits have in common, by the name that it has in the address.
const FACETS = [["folder", "Folder"], ["type", "Type"], ["language", "Language"]];
const VALUES = { folder: () => null, type: (hit) => hit.file_type, language: (hit) => hit.language };

// The hits that pass what the address chose.
export const narrowed = (hits, query, of = VALUES) => hits.filter((hit) => FACETS.every(([name]) => !query[name] || of[name](hit) === query[name]));

function Hits({ answer, tools, query }) {
  const list = useRef(null);
  const byId = new Map(tools.map((tool) => [tool.tool_id, tool]));
  const of = { ...VALUES, folder: (hit) => byId.get(hit.tool_id)?.name };
  const shown = narrowed(answer.results, query, of);
  const words = wordsOf(answer.query);
  useArrows(list);
  return html`<section aria-label="Answer" class="answer" ref=${list}>
    <div class="heading"><h2>${plural(shown.length, "hit")}</h2><span class="quiet">in ${number(Math.round(answer.took_ms))} ms</span></div>
    <${Notes} answer=${answer} />
    <${Facets} hits=${answer.results} of=${of} query=${query} />
    ${!answer.results.length && html`<${Empty} title="Nothing found"><p>Ask in other words, or look into one folder: there you can also look for the exact text.</p><//>`}
    <ol class="plain-list">${shown.map((hit) => {
      const tool = byId.get(hit.tool_id);
      return html`<${Hit} key=${hit.chunk_id} tool=${tool} toolId=${hit.tool_id} hit=${hit} words=${words} q=${answer.query}
        folder=${tools.length > 1 ? tool?.name : null} />`;
    })}</ol>
  </section>`;
}

// What the hits have in common, to narrow them. One value narrows nothing. `place` is the route of the view.
export function Facets({ hits, of = VALUES, query, place = [] }) {
  const groups = FACETS.map(([name, title]) => [name, title, counted(hits.map(of[name]).filter(Boolean))]).filter(([name, , counts]) => counts.length > 1 || query[name]);
  if (!groups.length) return null;
  return html`<div class="facets">${groups.map(([name, title, counts]) => html`<nav class="outcomes" key=${name} aria-label=${title}>
    ${counts.map(([value, count]) => html`<a key=${value} aria-current=${query[name] === value ? "true" : undefined}
      href=${href(...place, { ...query, [name]: query[name] === value ? undefined : value })}>${value} ${count}</a>`)}
  </nav>`)}</div>`;
}

function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}

// Arrow keys go from the question to the hits and from one to the next. Enter opens a hit, as it is a link.
export function useArrows(list) {
  useEffect(() => {
    function press(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const field = document.querySelector("[data-search]");
      const links = [...(list.current?.querySelectorAll(".hit .path") ?? [])];
      const at = links.indexOf(document.activeElement);
      if (!step || !links.length || (at < 0 && document.activeElement !== field)) return;
      event.preventDefault();
      const next = at + step < 0 ? field : links[Math.min(at + step, links.length - 1)];
      next.focus();
      next.closest(".hit")?.scrollIntoView({ block: "nearest" });
    }
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
