// The text of a file in parts of some lines, with its chunks beside it, and what is embedded for the chosen chunk.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { number, plural } from "../format.js";
import { useData } from "../hooks.js";
import { Alert, Button, Empty, Facts, Field, Loading } from "../parts.js";
import { go, href } from "../router.js";
import { coloured, colourLines } from "./colours.js";
import { Download } from "./download.js";
import { indexOf, wordsOf } from "./marks.js";

const PART_LINES = 400;
// Lines above the one that a link names.
const LINES_ABOVE = 20;
const PAGE_CHUNKS = 1000;

// The file of a route: by its id, or by its path, which not every answer has an id for.
async function fileOf(toolId, id, path, signal) {
  if (id !== "at") return id;
  for (let cursor = null; ; ) {
    const page = await get(toolAt(toolId, "files"), { q: path, cursor, limit: PAGE_CHUNKS }, signal);
    const found = page.items.find((file) => file.file_path === path);
    if (found) return found.file_id;
    if (!page.next_cursor) return path;
    cursor = page.next_cursor;
  }
}

// The chunks that touch lines up to `last`, without their texts.
async function chunksOf(toolId, fileId, last, chunkId, signal) {
  const chunks = [];
  for (let cursor = null; ; ) {
    const page = await get(toolAt(toolId, "files", fileId, "chunks"), { cursor, limit: PAGE_CHUNKS }, signal);
    for (const chunk of page.items) if (chunk.level === 0) chunks.push({ ...chunk, order: chunks.length });
    cursor = page.next_cursor;
    const isFound = !chunkId || chunks.some((chunk) => chunk.chunk_id === chunkId);
    if (!cursor || (isFound && chunks.at(-1)?.start_line > last)) return chunks;
  }
}

async function partOf(toolId, query, id, signal) {
  const fileId = await fileOf(toolId, id, query.path, signal);
  let line = Math.max(1, Number.parseInt(query.line, 10) || 1);
  let chunks = await chunksOf(toolId, fileId, line + PART_LINES, query.chunk, signal);
  const chosen = chunks.find((chunk) => chunk.chunk_id === query.chunk);
  if (chosen && !query.line) line = chosen.start_line;
  const first = query.from ? Math.max(1, Number.parseInt(query.from, 10) || 1) : Math.max(1, line - LINES_ABOVE);
  const last = first + PART_LINES - 1;
  const lines = { start_line: first, end_line: last };
  const text = await get(toolAt(toolId, "files", fileId), lines, signal);
  if (chunks.at(-1)?.start_line <= last) chunks = await chunksOf(toolId, fileId, last, query.chunk, signal);
  const isLast = text.end_line < last;
  return { fileId, text, chunks: chunks.filter((chunk) => chunk.end_line >= first && chunk.start_line <= last), isLast };
}

// Nothing of another file stays while this one loads or fails.
export const FileText = (given) => html`<${OneFile} key=${`${given.route.parts[3]} ${given.route.query.path}`} ...${given} />`;

function OneFile({ tool, toolId, route, status }) {
  const { query } = route;
  const id = route.parts[3];
  // a search also finds files that a run has not reached: their text is there once it has
  const key = [toolId, id, query.path, query.line, query.from, query.chunk, status?.status];
  const part = useData((signal) => partOf(toolId, query, id, signal), key);
  const { data, error } = part;
  const show = (change) => go(href("tools", toolId, "files", id, { path: query.path, q: query.q, ...change }));
  const back = html`<p><a href=${href("tools", toolId, "files")}>All files</a></p>`;
  if (error && !data) {
    return html`${back}<h2 class="mono">${query.path ?? "File"}</h2><${Alert} error=${error} />
      <p>If its outcome is not indexed, <a href=${href("tools", toolId, "files", { q: query.path })}>the list of files</a> says why.</p>`;
  }
  if (!data) return html`<${Loading} />`;
  const chosen = data.chunks.find((chunk) => chunk.chunk_id === query.chunk);
  return html`${back}
    <div class="heading"><h2 class="mono">${data.text.file_path}</h2><${Original} tool=${tool} text=${data.text} fileId=${data.fileId} /></div>
    <${Alert} error=${error} />
    <${Lines} data=${data} onShow=${show} />
    <div class="file-text">
      <${Text} data=${data} query=${query} chosen=${chosen} onChoose=${(chunk) => show({ chunk: chunk?.chunk_id, from: data.text.start_line })} />
      ${chosen ? html`<${Chunk} chunk=${chosen} onShow=${show} />` : html`<aside class="quiet">
        <p>${plural(data.chunks.length, "chunk")} in these lines. Press a number beside the text to see what is embedded for a chunk.</p></aside>`}
    </div>`;
}

function Original({ tool, text, fileId }) {
  const nodeOf = async () => {
    const { items } = await get(toolAt(tool.tool_id, "files"), { q: text.file_path, limit: PAGE_CHUNKS });
    return items.find((each) => each.file_id === fileId)?.file_node_id ?? fileId;
  };
  return html`<${Download} tool=${tool} path=${text.file_path} fileId=${fileId} nodeOf=${nodeOf} which="Download the" />`;
}

// The way through a long file.
function Lines({ data, onShow }) {
  const { start_line: first, end_line: last } = data.text;
  const [line, setLine] = useState("");
  const jump = (event) => {
    event.preventDefault();
    if (line > 0) onShow({ line });
  };
  return html`<form class="row lines" onSubmit=${jump} aria-label="Lines">
    <span class="grow">Lines ${number(first)} to ${number(last)}${data.isLast && first === 1 ? "" : ` of ${data.isLast ? number(last) : "more"}`}</span>
    ${first > 1 && html`<${Button} onClick=${() => onShow({ from: Math.max(1, first - PART_LINES) })}>Earlier lines<//>`}
    ${!data.isLast && html`<${Button} onClick=${() => onShow({ from: last + 1 })}>Later lines<//>`}
    <${Field} label="Go to line" type="number" min="1" value=${line} onInput=${(event) => setLine(event.target.value)} />
  </form>`;
}

// The lines with their numbers. A chunk's number stands at its first line, its bar beside all of its lines.
function Text({ data, query, chosen, onChoose }) {
  const { text } = data;
  const box = useRef(null);
  const words = useMemo(() => wordsOf(query.q ?? ""), [query.q]);
  const rows = useMemo(() => rowsOf(text, data.chunks), [data]);
  const target = Number(query.line) || (query.from ? 0 : chosen?.start_line);
  const to = Number(query.to) || target;
  useEffect(() => {
    if (target) box.current.querySelector(`[data-line="${target}"]`)?.scrollIntoView({ block: "center" });
  }, [data, target]);
  if (!text.text) return html`<${Empty} title="No text in these lines" />`;
  return html`<div class="scrolls code card" ref=${box} tabindex="0" role="region" aria-label="Text">
    ${rows.map((row) => {
      const { line, content, colours, over, begins } = row;
      const isTarget = line >= target && line <= to;
      return html`<div key=${line} data-line=${line} class=${isTarget ? "line target" : "line"}>
        <span class="bars">${begins.map((chunk) => html`<button type="button" class="plain" aria-pressed=${chunk === chosen ? "true" : "false"}
          aria-label=${`Chunk ${chunk.chunk_index + 1}, lines ${chunk.start_line} to ${chunk.end_line}`}
          onClick=${() => onChoose(chunk === chosen ? null : chunk)}>${chunk.chunk_index + 1}</button>`)}</span>
        <span class=${`bar ${barOf(over, chosen)}`}></span>
        <span class="line-number">${line}</span>
        <code>${chosen && over.includes(chosen) ? within(row, chosen, words) : coloured(content, colours, words)}${"\n"}</code>
      </div>`;
    })}
  </div>`;
}

function barOf(over, chosen) {
  if (!over.length) return "";
  if (over.includes(chosen)) return "bar-chosen";
  return over.at(-1).order % 2 ? "bar-odd" : "bar-even";
}

// Lines with their start in the file's characters, and the chunks that touch them.
function rowsOf(text, chunks) {
  const shown = text.text.replace(/\n$/, "");
  const lines = shown.split("\n");
  const colours = colourLines(shown, text.file_path);
  let start = text.start_char;
  return lines.map((content, index) => {
    const line = text.start_line + index;
    const over = chunks.filter((chunk) => chunk.start_line <= line && chunk.end_line >= line);
    const row = { line, start, content, colours: colours?.[index], over, begins: over.filter((chunk) => chunk.start_line === line || (index === 0 && over.length)) };
    start += lengthOf(content) + 1;
    return row;
  });
}

const lengthOf = (text) => (/[\u{10000}-\u{10ffff}]/u.test(text) ? [...text].length : text.length);

// A line with the characters of the chosen chunk set apart.
function within({ content, colours, start }, chunk, words) {
  const from = indexOf(content, Math.max(0, chunk.start_char - start));
  const to = indexOf(content, Math.max(0, chunk.end_char - start));
  return html`${coloured(content, colours, words, 0, from)}<span class="in-chunk">${coloured(content, colours, words, from, to)}</span>${coloured(content, colours, words, to)}`;
}

// What is known of a chunk, and the text that the model gets for it.
function Chunk({ chunk, onShow }) {
  return html`<aside class="card" aria-label="The chosen chunk">
    <div class="heading"><h3>Chunk ${chunk.chunk_index + 1}</h3><${Button} class="plain end" onClick=${() => onShow({ line: chunk.start_line })}>Close<//></div>
    <${Facts} rows=${[
      ["Lines", `${chunk.start_line} to ${chunk.end_line}`],
      ["Characters", `${number(chunk.start_char)} to ${number(chunk.end_char)}`],
      ["Tokens", number(chunk.tokens)],
      ["Heading", chunk.title],
      ["Symbol", chunk.symbol],
      ["Kind", chunk.node_type],
      ["Scope", chunk.scope],
      ["JSON pointer", chunk.json_pointer],
      ["Page", chunk.page],
      ["Language", chunk.language],
    ]} />
    <h4>${chunk.embedded ? "Embedded text" : "Found by words only: this text has no vector"}</h4>
    <pre class="scrolls" tabindex="0" role="region" aria-label="Embedded text">${chunk.context && html`<span class="context">${chunk.context}${"\n\n"}</span>`}${chunk.chunk_text}</pre>
    ${chunk.context && html`<p class="quiet">The first part is the context: headings, keys or definitions around the text.</p>`}
    <p class="quiet mono">${chunk.chunk_id}</p>
  </aside>`;
}
