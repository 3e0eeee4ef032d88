// Rows of tables in the text of a file: lines of CSV, and lines between bars, as documents and Markdown have them.
import { html } from "../../vendor/preact-htm.js";
import { marked } from "./marks.js";

const DELIMITERS = ["\t", ";", ",", "|"];
const MIN_ROWS = 2;
// More columns, and longer cells, are cut unless the hit is opened.
const SHOWN_CELLS = 12, CELL_CHARS = 200;
const BARS = /^\s*\|.*\|\s*$/;
const RULE = /^[\s|:-]+$/;

const countOf = (line, sign) => line.split(sign).length - 1;

// The sign between the cells of CSV: the one that most lines have equally often. Undefined without any.
function delimiterOf(lines) {
  const agreed = (sign) => {
    const counts = lines.map((line) => countOf(line.replace(/"[^"]*"/g, ""), sign)).filter((count) => count > 0);
    return Math.max(0, ...[...new Set(counts)].map((count) => counts.filter((each) => each === count).length));
  };
  const best = DELIMITERS.map((sign) => [agreed(sign), sign]).sort(([one], [other]) => other - one)[0];
  return best[0] >= lines.length / 2 ? best[1] : undefined;
}

// The cells of a line of CSV. A quoted cell may have delimiters and doubled quotes.
function cellsOf(line, delimiter) {
  const cells = [];
  for (let at = 0; at <= line.length; ) {
    const quoted = line[at] === '"' && /"((?:[^"]|"")*)"/y;
    if (quoted) quoted.lastIndex = at;
    const inside = quoted && quoted.exec(line);
    const from = inside ? at + inside[0].length : at;
    const next = line.indexOf(delimiter, from);
    const end = next < 0 ? line.length : next;
    cells.push(((inside ? inside[1].replaceAll('""', '"') : "") + line.slice(from, end)).trim());
    at = end + 1;
  }
  return cells;
}

const betweenBars = (line) => line.trim().slice(1, -1).split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

// The lines in blocks: { first, lines } of text, or { first, rows } of a table, whose rows are { index, cells, isHead }.
export function blocksOf(lines, path) {
  if (/\.(csv|tsv)$/i.test(path)) {
    const delimiter = delimiterOf(lines);
    const rows = lines.map((line, index) => ({ index, cells: cellsOf(line, delimiter ?? ",") })).filter((_, index) => lines[index].trim());
    return delimiter && rows.length ? [{ first: 0, rows }] : [{ first: 0, lines }];
  }
  const blocks = [];
  lines.forEach((line, index) => {
    const isRow = BARS.test(line);
    if (!blocks.length || blocks.at(-1).isTable !== isRow) blocks.push({ first: index, lines: [], isTable: isRow });
    blocks.at(-1).lines.push(line);
  });
  return blocks.map((block) => (block.isTable && block.lines.length >= MIN_ROWS ? { first: block.first, rows: rowsOf(block) } : { first: block.first, lines: block.lines }));
}

function rowsOf({ first, lines }) {
  const isHead = (at) => at + 1 < lines.length && RULE.test(lines[at + 1]) && !RULE.test(lines[at]);
  return lines
    .map((line, at) => ({ index: first + at, cells: betweenBars(line), isHead: isHead(at), isRule: RULE.test(line) }))
    .filter(({ isRule }) => !isRule);
}

// `start` is the number of the first line of all blocks; null where a text has none.
export function Table({ rows, start, words, isWhole }) {
  const isNumbered = start !== null && start !== undefined;
  return html`<table class="excerpt"><tbody>${rows.map(
    ({ index, cells, isHead }) => html`<tr key=${index}>
      ${isNumbered && html`<td class="line-number">${start + index}</td>`}
      ${cells.slice(0, isWhole ? cells.length : SHOWN_CELLS).map((cell) => cellHtml(isWhole || cell.length <= CELL_CHARS ? cell : `${cell.slice(0, CELL_CHARS)} …`, words, isHead))}
      ${!isWhole && cells.length > SHOWN_CELLS && html`<td>…</td>`}
    </tr>`,
  )}</tbody></table>`;
}

const cellHtml = (cell, words, isHead) => (isHead && cell ? html`<th scope="col">${marked(cell, words)}</th>` : html`<td>${marked(cell, words)}</td>`);
