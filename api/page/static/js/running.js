// What a task does, in numbers: speed, tokens and money. Shared by the views of one tool, all tools and the workers.
import { html, useRef } from "../vendor/preact-htm.js";
import { get } from "./api.js";
import { compact, dollars, duration, number, percent, plural } from "./format.js";
import { useData } from "./hooks.js";
import { Bar } from "./parts.js";

// Milliseconds over which a pace is measured, and a slow one; seconds that tell of a slow one.
const PACE_MS = 15_000;
const SLOW_PACE_MS = 120_000;
const SLOWEST_S = 20;

export const isOpen = (status) => ["pending", "indexing"].includes(status);

// US dollars per million tokens, by the embedding model's name; null where the price is not known.
export function usePrices() {
  const { data } = useData((signal) => get("api/models", {}, signal), []);
  return Object.fromEntries((data?.items ?? []).map((each) => [each.model, each.input_price]));
}

// Chunks and tokens per second since the task began; null before.
export function speed(status) {
  if (!status.started_at || status.tokens === null) return null;
  const end = status.finished_at ? new Date(status.finished_at) : new Date();
  const seconds = Math.max(1, (end - new Date(status.started_at)) / 1000);
  return {
    chunks: (status.embedded_chunks + status.reused_chunks) / seconds,
    tokens: status.tokens / seconds,
    seconds,
  };
}

export function cost(status, price) {
  if (status.tokens === null) return "–";
  if (price === undefined || price === null) return "price unknown";
  return dollars((status.tokens / 1e6) * price);
}

// A bar for each step of a task: files are found by words, then by meaning.
export function Progress({ status, name }) {
  const pace = usePace(status);
  if (!isOpen(status.status)) return null;
  const waits = status.status === "pending" ? "waiting for a worker" : status.listing && "listing the folder";
  // while somebody else is waited for, nobody knows how long it takes
  const rest = (left) => (left === null || left === undefined || status.warning ? "" : `, about ${duration(rounded(left))} left`);
  // once all words are there, what is left is the vectors of chunks
  const meaning = status.searchable_at && status.total_chunks ? status.vector_chunks / status.total_chunks : status.progress;
  if (status.progress === null) return waits ? html`<div class="progress"><span class="quiet">${waits}</span></div>` : null;
  const read = status.searchable_files + status.skipped_files + status.failed_files;
  const bar = (step, share, left) => html`<${Bar} value=${share} label=${`${step} of ${name}`} />
    <span class="quiet">${step}: ${waits || percent(share) + rest(left)}</span>`;
  return html`<div class="progress">
    ${bar("Words", status.searchable_at ? 1 : read / (status.total_files || 1), status.words_eta_seconds)}
    ${bar("Meaning", meaning, status.eta_seconds)}
    ${pace && html`<span class="quiet">${pace}</span>`}
  </div>`;
}

const briefly = (value) => compact(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));

// Seconds, no more precise than an estimate is.
function rounded(seconds) {
  const step = seconds >= 600 ? 60 : seconds >= 60 ? 10 : seconds >= 10 ? 5 : 1;
  return Math.round(seconds / step) * step;
}

// How many files or chunks are done a second just now, or a minute if that is few; "" while that is not known.
function usePace(status) {
  const seen = useRef([]);
  const now = { at: Date.now(), files: status.searchable_files, chunks: status.vector_chunks };
  const last = seen.current.at(-1);
  if (last?.files !== now.files || last.chunks !== now.chunks) seen.current = [...seen.current, now];
  // counts that were seen stay until the next ones: those at the beginning of a time are the last ones before it
  const begin = (ms) => Math.max(0, seen.current.findLastIndex(({ at }) => now.at - at >= ms));
  seen.current = seen.current.slice(begin(SLOW_PACE_MS));
  const among = (ms) => {
    const first = seen.current[begin(ms)];
    const seconds = Math.max(1, Math.min(ms, now.at - first.at)) / 1000;
    return { seconds, files: (now.files - first.files) / seconds, chunks: (now.chunks - first.chunks) / seconds };
  };
  return paceOf(among(PACE_MS), among(SLOW_PACE_MS), Boolean(status.searchable_at));
}

// The words of a pace, as the last seconds and the last minutes tell it: { seconds, files, chunks } a second. Once all
// files can be searched, only chunks count.
export function paceOf(now, lately, hasAllFiles) {
  const kinds = [!hasAllFiles && ["file", "files"], ["chunk", "chunks"]].filter(Boolean);
  for (const [one, many] of kinds) {
    if (now.seconds >= 2 && now[many] >= 0.5) return `${plural(now[many], one, many, briefly)} a second`;
    if (lately.seconds >= SLOWEST_S && lately[many] * 60 >= 1) return `${plural(lately[many] * 60, one, many, (value) => compact(Math.round(value)))} a minute`;
  }
  return "";
}

// The facts of a task, for Facts.
export function factsOf(status, price) {
  const pace = speed(status);
  const open = isOpen(status.status);
  return [
    status.total_files !== null && ["Files", `${number(status.indexed_files)} of ${number(status.total_files)}`],
    status.skipped_files > 0 && ["Skipped", number(status.skipped_files)],
    status.failed_files > 0 && ["Failed", number(status.failed_files)],
    status.total_chunks !== null && ["Chunks", number(status.total_chunks)],
    status.vector_chunks < status.total_chunks && ["By meaning", number(status.vector_chunks)],
    open && status.embedded_chunks !== null && ["Embedded in this run", number(status.embedded_chunks)],
    open && status.reused_chunks > 0 && ["Reused in this run", number(status.reused_chunks)],
    status.tokens !== null && ["Tokens paid", compact(status.tokens)],
    status.tokens !== null && ["Cost", cost(status, price)],
    !open && pace && ["Took", duration(pace.seconds)],
  ];
}
