// The tree of summaries: its state, how it is built, its nodes to open, and its settings.
import { html, useState } from "../../vendor/preact-htm.js";
import { call, get, post, toolAt } from "../api.js";
import { compact, dollars, number, percent, plural, time, words } from "../format.js";
import { useAction, useData, useEvery } from "../hooks.js";
import { Alert, Bar, Button, Confirm, Dialog, Empty, Facts, Field, Loading, State } from "../parts.js";
import { warningOf } from "../messages.js";
import { Sunburst } from "./sunburst.js";
import { TreeNodes } from "./tree-nodes.js";
import { TreeSettings } from "./tree-settings.js";

const EXTRACTIVE = "local/extractive";
const BUILDING_MS = 1000;
const QUIET_MS = 10_000;
const REMEDIES = {
  llm_not_configured: "Name a language model in the settings below. local/extractive needs no account: it chooses sentences of the folder.",
};

export function Tree({ tool, toolId, mayWrite, reload }) {
  const { data: state, error, reload: look } = useData((signal) => get(toolAt(toolId, "raptor", "status"), {}, signal), [toolId]);
  const isBuilding = ["pending", "indexing"].includes(state?.indexing_status);
  useEvery(isBuilding ? BUILDING_MS : QUIET_MS, look);
  if (!state) return error ? html`<${Alert} error=${error} />` : html`<${Loading} />`;
  const changed = () => (reload(), look());
  return html`<${Alert} error=${error} />
    <section class="card" aria-label="The tree">
      <div class="heading"><h2>Tree of summaries</h2><${State} value=${state.indexing_status === "none" ? "not built" : state.indexing_status} /></div>
      <${Told} state=${state} isBuilding=${isBuilding} />
      ${mayWrite && html`<${Verbs} toolId=${toolId} state=${state} isBuilding=${isBuilding} onChange=${changed} />`}
    </section>
    ${state.has_index
      ? html`${state.max_level !== null && html`<${Sunburst} toolId=${toolId} state=${state} />`}<${TreeNodes} toolId=${toolId} state=${state} key=${state.last_build_time} />`
      : !isBuilding && html`<${Empty} title="No tree yet"><p>A tree answers questions about the whole folder: chunks that belong together get a summary, and summaries get summaries.</p><//>`}
    ${mayWrite && html`<${TreeSettings} tool=${tool} toolId=${toolId} onChange=${changed} />`}`;
}

function Told({ state, isBuilding }) {
  const skipped = Object.entries(state.skipped ?? {}).map(([reason, count]) => `${number(count)} (${words(reason)})`);
  return html`<div role="status">
      ${isBuilding && html`${state.progress !== null && html`<${Bar} value=${state.progress} label="Progress of the build" />`}<p>${state.indexing_status === "pending" ? "The build waits for its turn." : `Building: ${state.progress === null ? "" : percent(state.progress)}`}</p>`}
      ${state.indexing_status === "indexed" && state.has_index && html`<p>The tree is complete.</p>`}
    </div>
    <${Alert} error=${state.error && { code: state.error_code, detail: state.error }}>${REMEDIES[state.error_code] && html`<p>${REMEDIES[state.error_code]}</p>`}<//>
    ${state.warning && html`<div class="note" role="note"><p>${warningOf(state.warning)}</p></div>`}
    ${state.stale > 0 && html`<div class="note" role="note"><p>${plural(state.stale, "text")} changed since the tree was built.</p></div>`}
    ${skipped.length > 0 && html`<div class="note" role="note"><p>Clusters without a summary: ${skipped.join(", ")}.</p></div>`}
    <${Facts} rows=${[
      state.leaf_nodes !== null && ["Texts", number(state.leaf_nodes)],
      state.summary_nodes !== null && ["Summaries", number(state.summary_nodes)],
      ...(state.nodes_by_level ?? []).filter((each) => each.level > 0).map((each) => [`Level ${each.level}`, number(each.count)]),
      ["Built", time(state.last_build_time)],
      ["Clustered by", state.method],
      ["Model", state.model],
      state.requests > 0 && ["Requests", number(state.requests)],
      state.tokens_in > 0 && ["Tokens sent", compact(state.tokens_in)],
      state.tokens_out > 0 && ["Tokens received", compact(state.tokens_out)],
    ]} />
    ${state.model === EXTRACTIVE && html`<${Extracts} />`}`;
}

const Extracts = () => html`<p class="quiet"><b>local/extractive</b> extracts: it chooses sentences of the folder, and writes none of its own.</p>`;

function Verbs({ toolId, state, isBuilding, onChange }) {
  const [dialog, setDialog] = useState(null);
  const cancel = useAction(async () => (await post(toolAt(toolId, "raptor", "cancel")), onChange()));
  const close = () => setDialog(null);
  const done = () => (close(), onChange());
  return html`<${Alert} error=${cancel.error} />
    <div class="actions">
      ${!isBuilding && html`<${Button} class=${state.has_index ? "" : "primary"} onClick=${() => setDialog("build")}>${state.has_index ? "Build again" : "Build the tree"}<//>`}
      ${isBuilding && html`<${Button} action=${cancel} busyText="Cancelling …">Cancel the build<//>`}
      ${(state.has_index || state.method) && html`<${Button} class="danger" onClick=${() => setDialog("delete")}>Delete the tree<//>`}
    </div>
    ${dialog === "build" && html`<${Build} toolId=${toolId} hasTree=${state.has_index} onDone=${done} onClose=${close} />`}
    ${dialog === "delete" && html`<${Confirm} title="Delete the tree?" verb="Delete the tree" onDone=${done} onClose=${close}
      text="The summaries are deleted, unless another folder shares them. The folder and its index stay. A new build may cost tokens again."
      act=${() => call("DELETE", toolAt(toolId, "raptor"))} />`}`;
}

// What a build would need, before it starts.
function Build({ toolId, hasTree, onDone, onClose }) {
  const { data, error } = useData((signal) => get(toolAt(toolId, "raptor", "estimate"), {}, signal), [toolId]);
  const [isFull, setFull] = useState(false);
  const build = useAction(async () => (await post(toolAt(toolId, "raptor", "build"), { full: isFull }), true));
  const problem = error ?? build.error;
  return html`<${Dialog} title="Build the tree" onClose=${onClose}>
    ${!data && !error && html`<p class="quiet" role="status">Estimating …</p>`}
    ${data && html`<p>A whole tree is expected to need:</p><${Facts} rows=${[
      ["Texts", number(data.leaves)], ["Summaries", number(data.summaries)], ["Requests", number(data.requests)],
      ["Tokens sent", compact(data.tokens_in)], ["Tokens received", compact(data.tokens_out)], ["Price", dollars(data.usd)], ["Model", data.model],
    ]} />
    ${data.model === EXTRACTIVE && html`<${Extracts} />`}
    ${data.fits === false && html`<div class="note" role="note"><p>This is more than the settings allow: raise “Max leaves” or “Max tokens” there, or cluster by “adjacent”.</p></div>`}
    ${data.leaves === 0 && html`<p class="quiet" role="note">Nothing is indexed yet: the build waits for the folder.</p>`}`}
    <${Field} label="Cluster every layer from scratch" type="checkbox" class="check" checked=${isFull} onChange=${(event) => setFull(event.target.checked)}
      help=${hasTree ? "Otherwise only what changed is summarised again." : "Of use after many changes."} />
    <${Alert} error=${problem}>${REMEDIES[problem?.code] && html`<p>${REMEDIES[problem.code]}</p>`}<//>
    <div class="actions">
      <${Button} onClick=${onClose}>Not now<//>
      <${Button} class="primary" action=${build} onClick=${async () => (await build.run()) && onDone()} busyText="Starting …">Build<//>
    </div>
  <//>`;
}
