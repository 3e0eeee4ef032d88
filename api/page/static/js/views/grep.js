// Grep: the lines that match a pattern, by file.
import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { call, toolAt } from "../api.js";
import { plural } from "../format.js";
import { useData } from "../hooks.js";
import { Alert, Button, Empty, Field } from "../parts.js";
import { go, href } from "../router.js";
import { marked } from "./marks.js";
import { FileLink, Notes } from "./places.js";

const MAX_HITS = 200;

function requestOf({ pattern, regex, cased, word, glob, lines }) {
  const around = Math.min(50, Math.max(0, Number(lines) || 0));
  return { pattern, regex: regex === "1", case_sensitive: cased === "1", word: word === "1", glob: glob || null, before: around, after: around, head_limit: MAX_HITS };
}

// What marks the match in a line. A regular expression of the service may be none of the browser's: then nothing is marked.
function expressionOf({ pattern, regex, case_sensitive: isCased }) {
  try {
    return new RegExp(regex ? pattern : pattern.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&"), isCased ? "gu" : "giu");
  } catch {
    return null;
  }
}

export function Grep({ toolId, route }) {
  const { query } = route;
  const [draft, setDraft] = useState(query);
  useEffect(() => setDraft(query), [JSON.stringify(query)]);
  const request = requestOf(query);
  const { data, error, loading } = useData(
    (signal) => (query.pattern ? call("POST", toolAt(toolId, "grep"), { body: request, signal }) : Promise.resolve(null)),
    [toolId, JSON.stringify(request)],
  );
  const find = (event) => {
    event.preventDefault();
    go(href("tools", toolId, "grep", draft));
  };
  const input = (name) => ({ value: draft[name] ?? "", onInput: (event) => setDraft({ ...draft, [name]: event.target.value }) });
  const check = (name) => ({ type: "checkbox", class: "check", checked: draft[name] === "1",
    onChange: (event) => setDraft({ ...draft, [name]: event.target.checked ? "1" : "" }) });
  return html`<form class="card search" role="search" aria-label="Grep" onSubmit=${find}>
      <div class="row">
        <${Field} label="Pattern" class="grow mono-input" type="search" data-search="" autocomplete="off" spellcheck=${false} ...${input("pattern")} />
        <${Field} label="Files" placeholder="*.py" ...${input("glob")} />
        <${Field} label="Lines around" type="number" min="0" max="50" ...${input("lines")} />
        <${Button} type="submit" class="primary">Find<//>
      </div>
      <div class="row checks">
        <${Field} label="Regular expression" ...${check("regex")} />
        <${Field} label="Upper and lower case differ" ...${check("cased")} />
        <${Field} label="Whole words" ...${check("word")} />
      </div>
    </form>
    <${Alert} error=${error} />
    <div role="status">${query.pattern && loading && html`<p class="quiet">Searching …</p>`}</div>
    ${query.pattern && data && !error && html`<${Lines} toolId=${toolId} answer=${data} expression=${expressionOf(request)} />`}`;
}

function Lines({ toolId, answer, expression }) {
  const files = byFile(answer.hits);
  return html`<h2>${plural(answer.hits.length, "line")} in ${plural(files.size, "file")}</h2>
    ${answer.truncated && html`<div class="note" role="note"><p>There may be more: the search stops at ${MAX_HITS} lines or after its time. Narrow the pattern or the files.</p></div>`}
    <${Notes} answer=${{ notes: answer.notes }} />
    ${!answer.hits.length && html`<${Empty} title="No line matches"><p>Try fewer words, ignore the case, or all files.</p><//>`}
    ${[...files].map(([path, hits]) => html`<section class="card grep-file" key=${path}>
      <h3><${FileLink} toolId=${toolId} place=${{ file_path: path }} /></h3>
      <div class="scrolls" tabindex="0" role="region" aria-label=${`Lines of ${path}`}>
        ${hits.map((hit) => html`<div class="grep-hit" key=${`${hit.line} ${hit.column}`}>
          ${hit.before.map((line, index) => html`<${Line} number=${hit.line - hit.before.length + index} text=${line} />`)}
          <${Line} number=${hit.line} text=${marked(hit.preview, expression)} to=${href("tools", toolId, "files", "at", { path, line: hit.line })} />
          ${hit.after.map((line, index) => html`<${Line} number=${(hit.end_line ?? hit.line) + index + 1} text=${line} />`)}
        </div>`)}
      </div>
    </section>`)}`;
}

const Line = ({ number, text, to }) => html`<div class="line">
  ${to ? html`<a class="line-number" href=${to} aria-label=${`Line ${number}`}>${number}</a>` : html`<span class="line-number">${number}</span>`}<code>${text}</code></div>`;

function byFile(hits) {
  const files = new Map();
  for (const hit of hits) files.set(hit.file_path, [...(files.get(hit.file_path) ?? []), hit]);
  return files;
}
