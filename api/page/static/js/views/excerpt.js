// Lines of a file as they are read in a hit: without the space that all of them begin with, and with their numbers.
import { html } from "../../vendor/preact-htm.js";
import { coloured } from "./colours.js";
import { foundIn, marked } from "./marks.js";
import { blocksOf, Table } from "./table.js";

// Lines of a hit that is not opened.
const SHOWN_LINES = 6;
// A longer line is cut before its last words, unless the hit is opened.
const LINE_CHARS = 400;

// The lines of a text to show: those around most of the words. { lines, first, isCut }, `first` counts from 0.
export function bestLines(text, words) {
  const lines = text.replace(/\n+$/, "").split("\n");
  if (lines.length <= SHOWN_LINES) return { lines, first: 0, isCut: lines.some((line) => line.length > LINE_CHARS) };
  const found = lines.map((line) => foundIn(line, words));
  let best = 0, most = -1;
  for (let first = 0; first + SHOWN_LINES <= lines.length; first += 1) {
    const all = found.slice(first, first + SHOWN_LINES).flatMap((each) => [...each]);
    // different words count before the same one again, and a line above them tells where they stand
    const score = new Set(all).size * 100 + all.length - (found[first].size ? 1 : 0) - (lines[first].trim() ? 0 : 1);
    if (score > most) [best, most] = [first, score];
  }
  return { lines: lines.slice(best, best + SHOWN_LINES), first: best, isCut: true };
}

// `start` is the number of the first line; null where a text has none. `colours` are the pieces of each line, if it is code.
export function Lines({ lines, path, start, words, isWhole, near, colours }) {
  const blocks = colours ? [{ first: 0, lines }] : blocksOf(lines, path);
  return blocks.map((block) =>
    block.rows
      ? html`<${Table} rows=${block.rows} start=${start} words=${words} isWhole=${isWhole} />`
      : html`<${Text} ...${{ ...block, start, words, isWhole, near, colours }} />`,
  );
}

function Text({ first, lines, start, words, isWhole, near, colours }) {
  const filled = lines.filter((line) => line.trim());
  const blanks = (line) => line.match(/^[ \t]*/)[0].length;
  const indent = filled.length ? Math.min(...filled.map(blanks), 1000) : 0;
  const numberOf = (index) => (start === null || start === undefined ? "" : start + first + index);
  const shown = (line, index) => {
    const from = Math.min(indent, blanks(line));
    if (isWhole || line.length <= LINE_CHARS) return coloured(line, colours?.[index], words, from);
    return marked(`${around(line, words)} …`.slice(from), words);
  };
  return html`<pre class=${`excerpt ${near ? "near" : ""}`}>${lines.map(
    (line, index) => html`<span class="row-line" data-line=${numberOf(index)}>${shown(line, index)}${index < lines.length - 1 ? "\n" : ""}</span>`,
  )}</pre>`;
}

// The part of a long line in which the first word stands.
function around(line, words) {
  const at = words ? [...line.matchAll(words)][0]?.index ?? 0 : 0;
  return line.slice(Math.max(0, Math.min(at - LINE_CHARS / 2, line.length - LINE_CHARS)), Math.max(LINE_CHARS, at + LINE_CHARS / 2));
}
