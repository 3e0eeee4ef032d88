// The folder as a map: each file and folder as large as its bytes, in the colour of its outcome.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { bytes, number, percent, plural } from "../format.js";
import { useData } from "../hooks.js";
import { Alert, Empty, Loading } from "../parts.js";
import { href } from "../router.js";
import { rectangles } from "../shapes.js";
import { fileHref } from "./places.js";

const PAGE_FILES = 1000;
const MOST_FILES = 10_000;
// Height of a map as a share of its width, and its most pixels. On a phone it stands upright.
const SHAPE = 0.5;
const NARROW = 600;
const NARROW_SHAPE = 1.2;
const TALLEST = 720;
// Cells of one map; the smallest others are one cell.
const MOST_CELLS = 60;
// Pixels that a name needs, those of a letter, and those of a folder's edge.
const NAMED = [44, 24];
const LETTER = 8.2;
const EDGE = 5;
// Letters of a name that is cut, at least.
const FEWEST = 7;
// Worst first: a folder has the colour of the worst that is a tenth of it.
const OUTCOMES = [["failed", "not read"], ["pending", "waiting"], ["skipped", "left out"], ["indexed", "indexed"]];
const SHARE = 0.1;

async function filesOf(toolId, signal) {
  const files = [];
  let cursor = null;
  do {
    const answer = await get(toolAt(toolId, "files"), { limit: PAGE_FILES, cursor }, signal);
    files.push(...answer.items);
    cursor = answer.next_cursor;
  } while (cursor && files.length < MOST_FILES);
  return { files, isCut: Boolean(cursor) };
}

// What lies directly in the folder `at`: files, and folders with all that is below them.
export function cellsOf(files, at) {
  const start = at ? `${at}/` : "";
  const cells = new Map();
  for (const file of files) {
    // a container, such as a mail, stands beside what it holds
    const isSelf = file.file_path === at;
    if (!isSelf && !file.file_path.startsWith(start)) continue;
    const [name, ...rest] = isSelf ? [at.split("/").at(-1)] : file.file_path.slice(start.length).split("/");
    const cell = cells.get(name) ?? { name, path: isSelf ? at : start + name, file: rest.length ? null : file, size: 0, files: 0, counts: {} };
    const outcome = file.status === "indexing" ? "pending" : file.status;
    cell.size += file.size;
    cell.files += 1;
    cell.counts[outcome] = (cell.counts[outcome] ?? 0) + 1;
    if (rest.length) cell.file = null;
    cells.set(name, cell);
  }
  return [...cells.values()].sort((one, other) => other.size - one.size || (one.name < other.name ? -1 : 1));
}

const outcomeOf = ({ counts, files }) => OUTCOMES.find(([name]) => (counts[name] ?? 0) >= Math.max(1, files * SHARE))?.[0] ?? "indexed";
const told = ({ counts }) => OUTCOMES.filter(([name]) => counts[name]).map(([name, text]) => `${number(counts[name])} ${text}`).join(", ");

// All that is too small for a cell of its own.
function joined(cells) {
  if (cells.length <= MOST_CELLS) return cells;
  const [shown, rest] = [cells.slice(0, MOST_CELLS - 1), cells.slice(MOST_CELLS - 1)];
  const counts = {};
  for (const cell of rest) for (const [name, count] of Object.entries(cell.counts)) counts[name] = (counts[name] ?? 0) + count;
  const sum = (name) => rest.reduce((total, cell) => total + cell[name], 0);
  return [...shown, { name: `${number(rest.length)} smaller`, path: null, file: null, size: sum("size"), files: sum("files"), counts }];
}

export function FolderMap({ toolId, route, status }) {
  const { data, error } = useData((signal) => filesOf(toolId, signal), [toolId, status?.task_id, status?.status]);
  const at = route.query.at ?? "";
  const all = useMemo(() => data && cellsOf(data.files, at), [data, at]);
  const shown = useMemo(() => all && joined(all), [all]);
  if (!data) return error ? html`<${Alert} error=${error} />` : html`<${Loading} />`;
  const where = (path) => href("tools", toolId, "map", { at: path });
  const steps = at ? at.split("/") : [];
  const linkOf = (cell) => (cell.file ? (cell.file.chunks ? fileHref(toolId, cell.file) : href("tools", toolId, "files", { q: cell.path })) : cell.path ? where(cell.path) : null);
  return html`<h2>Map</h2>
    <nav class="crumbs" aria-label="Folder of the map">
      <a href=${where("")} aria-current=${at ? undefined : "true"}>Whole folder</a>
      ${steps.map((name, place) => html` / <a href=${where(steps.slice(0, place + 1).join("/"))} aria-current=${place === steps.length - 1 ? "true" : undefined}>${name}</a>`)}
    </nav>
    ${data.isCut && html`<p class="note" role="note">The map shows the first ${plural(data.files.length, "file")} by path.</p>`}
    ${all.length ? html`<${Picture} files=${data.files} cells=${shown} linkOf=${linkOf} />
      <p class="legend quiet">${OUTCOMES.map(([name, text]) => html`<span key=${name}><span class=${`swatch cell-${name}`}></span> ${text} </span>`)}</p>
      <${Table} cells=${all} linkOf=${linkOf} />` : html`<${Empty} title="No file here"><p>Nothing was listed in this folder.</p><//>`}`;
}

// Arrow keys move to the nearest cell in their direction; Enter opens it, and backspace goes back as the browser does.
function Picture({ files, cells, linkOf }) {
  const box = useRef(null);
  const [wide, setWide] = useState(0);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWide(Math.round(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const high = Math.round(Math.min(TALLEST, wide * (wide < NARROW ? NARROW_SHAPE : SHAPE)));
  const places = useMemo(() => placesOf(cells, [0, 0, wide, high]), [cells, wide, high]);
  const inner = useMemo(() => cells.map((cell, index) => insideOf(files, cell, places[index])), [files, cells, places]);
  function press(event) {
    const turn = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    const links = [...box.current.querySelectorAll("a")];
    const here = links.indexOf(document.activeElement);
    if (!turn || here < 0) return;
    event.preventDefault();
    const middle = (link) => (({ x, y, width, height }) => [x + width / 2, y + height / 2])(link.getBoundingClientRect());
    const [x, y] = middle(links[here]);
    const far = (link) => {
      const [across, down] = middle(link).map((value, axis) => value - [x, y][axis]);
      const ahead = across * turn[0] + down * turn[1];
      return ahead <= 1 ? Infinity : ahead + 2 * Math.abs(across * turn[1] + down * turn[0]);
    };
    const next = links.reduce((best, link) => (far(link) < far(best) ? link : best), links[here]);
    if (far(next) < Infinity) next.focus();
  }
  return html`<svg class="map" height=${high} role="group" aria-label="Map by size. Arrow keys move, Enter opens." ref=${box} onKeyDown=${press}>
    ${wide > 0 && cells.map((cell, index) => html`<${Cell} key=${cell.name} cell=${cell} place=${places[index]} inner=${inner[index]} link=${linkOf(cell)} />`)}
  </svg>`;
}

// An empty file is still a cell.
function placesOf(cells, box) {
  const least = Math.max(1, (cells[0]?.size ?? 0) / 2000);
  return rectangles(cells.map(({ size }) => Math.max(size, least)), box);
}

// What lies in the folder of a cell, below its name: [outcome, place, name] of each part.
function insideOf(files, cell, [x, y, width, height]) {
  if (cell.file || !cell.path || width < NAMED[0] || height < 2 * NAMED[1]) return [];
  const parts = joined(cellsOf(files, cell.path));
  const box = [x + EDGE, y + NAMED[1], width - 2 * EDGE, height - NAMED[1] - EDGE];
  return placesOf(parts, box).map((place, index) => [outcomeOf(parts[index]), place, parts[index].name]);
}

// As much of a name as fits, if it still says something.
function fitted(name, width) {
  const letters = Math.floor((width - 10) / LETTER);
  return name.length <= letters ? name : letters < FEWEST ? "" : `${name.slice(0, letters - 1)}…`;
}

function Cell({ cell, place: [x, y, width, height], inner, link }) {
  const said = `${cell.name}${cell.file || !cell.path ? "" : "/"}: ${bytes(cell.size)}, ${plural(cell.files, "file")}, ${told(cell)}`;
  const name = fitted(cell.name, width);
  const inside = html`<title>${said}</title>
    <rect class=${`cell cell-${outcomeOf(cell)} ${cell.file ? "" : "cell-folder"}`} x=${x + 1} y=${y + 1} width=${Math.max(0.5, width - 2)} height=${Math.max(0.5, height - 2)} rx="3" />
    ${inner.map(([outcome, [left, top, wide, high], part]) => html`<rect class=${`cell cell-${outcome}`} x=${left + 0.5} y=${top + 0.5} width=${Math.max(0.5, wide - 1)} height=${Math.max(0.5, high - 1)} />
      ${high > NAMED[1] && fitted(part, wide) && html`<text class="small-text" x=${left + 6} y=${top + 15} aria-hidden="true">${fitted(part, wide)}</text>`}`)}
    ${height > NAMED[1] && name && html`<text x=${x + 7} y=${y + 17} aria-hidden="true">${name}</text>
      ${!inner.length && height > 2 * NAMED[1] && html`<text class="small-text" x=${x + 7} y=${y + 35} aria-hidden="true">${bytes(cell.size)}</text>`}`}`;
  return link ? html`<a href=${link} aria-label=${said}>${inside}</a>` : html`<g role="img" aria-label=${said}>${inside}</g>`;
}

function Table({ cells, linkOf }) {
  const whole = cells.reduce((sum, { size }) => sum + size, 0) || 1;
  return html`<details class="as-table">
    <summary>The same as a table</summary>
    <div class="scrolls" tabindex="0" role="region" aria-label="Table of the map"><table>
      <thead><tr><th scope="col">Name</th><th scope="col" class="number">Size</th><th scope="col" class="number">Share</th><th scope="col" class="number">Files</th><th scope="col">Outcome</th></tr></thead>
      <tbody>${cells.map((cell) => html`<tr key=${cell.name}><td><a class="mono" href=${linkOf(cell)}>${cell.name}${cell.file ? "" : "/"}</a></td><td class="number">${bytes(cell.size)}</td>
        <td class="number">${percent(cell.size / whole)}</td><td class="number">${number(cell.files)}</td><td>${told(cell)}</td></tr>`)}</tbody>
    </table></div>
  </details>`;
}
