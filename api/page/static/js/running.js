// What a task does, in numbers: speed, tokens and money. Shared by the views of one tool, all tools and the workers.
import { html } from "../vendor/preact-htm.js";
import { get } from "./api.js";
import { compact, dollars, duration, number, percent } from "./format.js";
import { useData } from "./hooks.js";
import { Bar } from "./parts.js";

export const isOpen = (status) => ["pending", "indexing"].includes(status);

// US dollars per million tokens, by the embedding model's name; null where the price is not known.
export function usePrices() {
  const { data } = useData((signal) => get("api/models", {}, signal), []);
  return Object.fromEntries((data?.items ?? []).map((each) => [each.model, each.input_price]));
}

// Chunks and tokens per second since the task began; null before.
export function speed(status) {
  if (!status.started_at) return null;
  const end = status.finished_at ? new Date(status.finished_at) : new Date();
  const seconds = Math.max(1, (end - new Date(status.started_at)) / 1000);
  return {
    chunks: (status.embedded_chunks + status.reused_chunks) / seconds,
    tokens: status.tokens / seconds,
    seconds,
  };
}

export function cost(status, price) {
  if (price === undefined || price === null) return "price unknown";
  return dollars((status.tokens / 1e6) * price);
}

// A bar for each step of a task: files are found by words, then by meaning.
export function Progress({ status, name }) {
  if (!isOpen(status.status)) return null;
  const waits = status.status === "pending" ? "waiting for a worker" : status.listing && "listing the folder";
  const read = status.searchable_files + status.skipped_files + status.failed_files;
  const bar = (step, share, left) => html`<${Bar} value=${share} label=${`${step} of ${name}`} />
    <span class="quiet">${step}: ${waits || percent(share) + (left === null ? "" : `, about ${duration(left)} left`)}</span>`;
  return html`<div class="progress">
    ${bar("Words", status.searchable_at ? 1 : read / (status.total_files || 1), status.words_eta_seconds)}
    ${bar("Meaning", status.progress, status.eta_seconds)}
  </div>`;
}

// The facts of a task, for Facts.
export function factsOf(status, price) {
  const pace = speed(status);
  const open = isOpen(status.status);
  return [
    ["Files", `${number(status.indexed_files)} of ${number(status.total_files)}`],
    status.skipped_files > 0 && ["Skipped", number(status.skipped_files)],
    status.failed_files > 0 && ["Failed", number(status.failed_files)],
    ["Chunks", number(status.total_chunks)],
    status.vector_chunks < status.total_chunks && ["By meaning", number(status.vector_chunks)],
    ["Tokens paid", compact(status.tokens)],
    ["Cost", cost(status, price)],
    open && pace && ["Rate", `${compact(pace.chunks)} chunks/s`],
    !open && pace && ["Took", duration(pace.seconds)],
  ];
}
