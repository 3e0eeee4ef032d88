// What indexing a folder would cost, before it starts.
import { html } from "../vendor/preact-htm.js";
import { bytes, compact, dollars, number, plural, words } from "./format.js";
import { plain } from "./messages.js";
import { Facts } from "./parts.js";

export function EstimateFacts({ estimate }) {
  const { cost, tokens, requests } = estimate;
  const isNew = tokens.high > 0;
  const skipped = Object.entries(estimate.skipped);
  return html`<section class="estimate" aria-label="Estimate">
    <h2>Estimate</h2>
    <${Facts}
      rows=${[
        ["Files", `${number(estimate.total_files)}${estimate.complete ? "" : " or more"}`],
        ["Size", bytes(estimate.total_bytes)],
        estimate.unchanged_files > 0 && ["Indexed already", number(estimate.unchanged_files)],
        isNew && ["Tokens", `${compact(tokens.expected)} (${compact(tokens.low)} to ${compact(tokens.high)})`],
        isNew && ["Chunks", Object.entries(estimate.by_granularity).map(([name, { chunks }]) => `${compact(chunks.expected)} ${name}`).join(", ")],
        ["Cost", !isNew ? "nothing: no text is new" : cost ? range(cost) : "price unknown"],
        isNew && ["Requests", compact(requests.expected)],
        ["Model", estimate.model],
      ]}
    />
    ${skipped.length > 0 &&
    html`<p class="quiet">Not read: ${skipped.map(([reason, count]) => `${words(reason)} ${number(count)}`).join(", ")}.</p>`}
    ${estimate.uncounted_files > 0 &&
    html`<p class="quiet">${plural(estimate.uncounted_files, "file")} of ${bytes(estimate.uncounted_bytes)} can be counted only while indexing.</p>`}
    ${isNew && estimate.notes.map((note) => html`<p key=${note} class="quiet">${plain(note)}</p>`)}
  </section>`;
}

const range = (cost) => (cost.high === 0 ? "free" : `${dollars(cost.expected)} (${dollars(cost.low)} to ${dollars(cost.high)})`);
