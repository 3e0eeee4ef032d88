// A list of any length: rows near the view are in the document, pages near it in memory, and the others are loaded again.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { number, plural, words } from "../format.js";
import { plain, remedyOf } from "../messages.js";
import { epoch } from "../session.js";
import { useStore } from "../store.js";
import { Alert, Empty, Loading, State } from "../parts.js";
import { go } from "../router.js";
import { fileHref } from "./places.js";

const ROW_PX = 52;
const PAGE_ROWS = 200;
const PAGES_KEPT = 12;
// Rows outside the view that are in the document, so that a short scroll shows no gap.
const SPARE_ROWS = 8;
// A list that is open at its end refreshes at most so often while files are indexed.
const REFRESH_MS = 1500;

// The pages of a list: { rows, end, at(index), error }. `cursors[n]` begins page n, and `end` is known at the last page.
function usePages(toolId, filter, version) {
  const [, draw] = useState(0);
  const key = JSON.stringify([toolId, filter]);
  const now = useStore(epoch);
  const held = useRef(null);
  if (held.current?.key !== key) {
    held.current?.stop.abort();
    held.current = { key, cursors: [null], pages: new Map(), asked: new Set(), end: null, error: null, stop: new AbortController() };
  }
  const list = held.current;

  async function load(page) {
    if (list.asked.has(page) || page >= list.cursors.length) return;
    list.asked.add(page);
    try {
      const query = { ...filter, cursor: list.cursors[page], limit: PAGE_ROWS };
      const answer = await get(toolAt(toolId, "files"), query, list.stop.signal);
      list.pages.delete(page);
      list.pages.set(page, answer.items);
      list.error = null;
      if (answer.next_cursor) {
        list.cursors[page + 1] = answer.next_cursor;
        if (list.end !== null && list.end <= (page + 1) * PAGE_ROWS) list.end = null;
      } else list.end = page * PAGE_ROWS + answer.items.length;
      for (const old of list.pages.keys()) if (list.pages.size > PAGES_KEPT) list.pages.delete(old);
    } catch (error) {
      if (!list.stop.signal.aborted) list.error = error;
    }
    list.asked.delete(page);
    if (!list.stop.signal.aborted) draw((old) => old + 1);
  }
  useEffect(() => () => held.current.stop.abort(), []);
  useEffect(() => {
    const shown = [...list.pages.keys()];
    const timer = setTimeout(() => (shown.length ? shown : [0]).forEach(load), shown.length ? REFRESH_MS : 0);
    return () => clearTimeout(timer);
  }, [key, version, now]);
  // what is loaded, and one row more that stands for the next page
  const known = list.end ?? (list.cursors.length - 1) * PAGE_ROWS;
  const at = (index) => list.pages.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS];
  return { ...list, known, at, load };
}

export function FileList({ toolId, filter, total, chosen, onChoose, version }) {
  const list = usePages(toolId, filter, version);
  const port = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(0);
  // End was pressed, and the last row is not known yet
  const [toEnd, setToEnd] = useState();
  const stay = () => setToEnd();
  const measure = () => port.current && setView({ top: port.current.scrollTop, height: port.current.clientHeight });
  useLayoutEffect(measure, [list.known]);
  useEffect(() => {
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  useEffect(() => {
    setActive(0);
    stay();
    port.current?.scrollTo(0, 0);
  }, [list.key]);
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE_ROWS);
  const last = Math.min(list.known, Math.ceil((view.top + view.height) / ROW_PX) + SPARE_ROWS);
  useEffect(() => {
    // after an error the effect above loads again, once the service is back or an outcome changed
    if (list.error) return;
    for (let page = Math.floor(first / PAGE_ROWS); page <= Math.floor(last / PAGE_ROWS); page += 1)
      if (!list.pages.has(page)) list.load(page);
  });
  useLayoutEffect(() => {
    // showing the last row loads the next page
    if (toEnd) move(list.known - 1);
    if (list.end !== null) stay();
  }, [toEnd, list.known, list.end]);

  function move(to) {
    const next = Math.max(0, Math.min(list.known - 1, to));
    setActive(next);
    const box = port.current, top = next * ROW_PX, bottom = top + ROW_PX;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }
  function press(event) {
    const { key } = event;
    const screen = Math.max(1, Math.floor(view.height / ROW_PX) - 1);
    const steps = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + screen, PageUp: active - screen,
      Home: 0, End: list.known - 1 };
    const file = list.at(active);
    setToEnd(key === "End");
    if (key in steps) move(steps[key]);
    else if (key === " " && file) onChoose(file);
    else if (key === "Enter" && file) file.chunks ? go(fileHref(toolId, file)) : onChoose(file);
    else if (key === "Escape") onChoose(null);
    else return;
    event.preventDefault();
  }
  const isEmpty = list.end === 0;
  const rows = [];
  for (let index = first; index < last; index += 1) rows.push(index);
  const count = total ?? list.end;
  return html`<div class="file-list">
    <${Alert} error=${list.error} />
    <p class="quiet" role="status">${isEmpty ? "No file." : `${shownOf(list, count)}. Arrow keys move, space shows the outcome, Enter the text.`}</p>
    ${isEmpty && html`<${Empty} title="No such file"><p>Choose another outcome, or clear the filters.</p><//>`}
    <div class="port" ref=${port} hidden=${isEmpty} tabindex="0" role="listbox" aria-label="Files"
      aria-activedescendant=${list.at(active) && active >= first && active < last ? `file-row-${active}` : undefined}
      onScroll=${measure} onKeyDown=${press} onWheel=${stay} onPointerDown=${stay}>
      ${!list.known && !list.error && html`<${Loading} />`}
      <div role="presentation" class="rows" style=${{ height: `${list.known * ROW_PX}px` }}>
        ${rows.map((index) => html`<${Row} key=${index} index=${index} file=${list.at(index)} count=${count ?? -1}
          isActive=${index === active} isChosen=${chosen !== null && list.at(index)?.file_id === chosen.file_id}
          onPress=${() => (setActive(index), onChoose(list.at(index) ?? null))} />`)}
      </div>
    </div>
  </div>`;
}

function shownOf(list, count) {
  if (count === null || count === undefined) return `${plural(list.known, "file")} loaded, scroll for more`;
  return plural(count, "file");
}

function Row({ index, file, count, isActive, isChosen, onPress }) {
  const style = { top: `${index * ROW_PX}px`, height: `${ROW_PX}px` };
  const place = { id: `file-row-${index}`, role: "option", "aria-setsize": count, "aria-posinset": index + 1 };
  const kind = `file-row ${isActive ? "active" : ""}`;
  if (!file) return html`<div class=${kind} style=${style} ...${place} aria-selected="false">Loading …</div>`;
  // after a semicolon the message names the remedy itself
  const said = [plain(file.message ?? ""), !/;/.test(file.message) && remedyOf(file)].filter(Boolean).join(" ");
  return html`<div class=${kind} style=${style} ...${place} aria-selected=${isChosen ? "true" : "false"} onClick=${onPress}>
    <span class="file-name mono">${file.file_path}</span>
    <span class="file-state">${file.stale && html`<span class="state state-cancelled">stale</span> `}<${State} value=${file.status} /></span>
    <span class="file-said quiet" title=${said}>${file.reason && html`<b>${words(file.reason)}:</b> `}${said ||
    `${plural(file.chunks, "chunk")}, ${plural(file.tokens, "token")}${file.attempts > 1 ? `, ${number(file.attempts)} attempts` : ""}`}</span>
  </div>`;
}
