// The nodes of a tree, opened one by one. Keys are those of trees: arrows move, open and close.
import { html, useMemo, useRef, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { number, plural } from "../format.js";
import { useData } from "../hooks.js";
import { Alert, Loading } from "../parts.js";
import { fileHref } from "./places.js";

const PAGE_NODES = 100;
const SHOWN_FILES = 3;

export function TreeNodes({ toolId, state }) {
  const box = useRef(null);
  const [active, setActive] = useState(null);
  function press(event) {
    const here = event.target.closest("[role=treeitem]");
    if (!here || event.target !== here) return;
    const items = [...box.current.querySelectorAll("[role=treeitem]")];
    const place = items.indexOf(here);
    const isOpen = here.getAttribute("aria-expanded") === "true";
    const outer = here.parentElement.closest("[role=treeitem]");
    const focus = (item) => item?.focus();
    const acts = {
      ArrowDown: () => focus(items[place + 1]),
      ArrowUp: () => focus(items[place - 1]),
      Home: () => focus(items[0]),
      End: () => focus(items.at(-1)),
      ArrowRight: () => (isOpen ? focus(items[place + 1]) : here.querySelector("[data-toggle]")?.click()),
      ArrowLeft: () => (isOpen ? here.querySelector("[data-toggle]").click() : focus(outer)),
      Enter: () => here.querySelector(":scope > .node-head [data-toggle], :scope > .node-head a")?.click(),
      " ": () => here.querySelector(":scope > .node-head [data-toggle]")?.click(),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }
  const shared = { toolId, active, setActive };
  return html`<section class="card" aria-label="Summaries of the tree">
    <h2>Summaries</h2>
    <p class="quiet">Arrow keys move; right opens, left closes, Enter opens a text in its file.</p>
    <div class="tree" role="tree" aria-label="Summaries" ref=${box} onKeyDown=${press}>
      <${Nodes} of=${state.max_level === null ? {} : { level: state.max_level }} ...${shared} isTop />
    </div>
  </section>`;
}

function Nodes({ of, toolId, isTop = false, ...shared }) {
  const [pages, setPages] = useState(1);
  const { data, error } = useData(async (signal) => {
    const items = [];
    let cursor = null;
    for (let page = 0; page < pages; page += 1) {
      const answer = await get(toolAt(toolId, "raptor", "nodes"), { ...of, cursor, limit: PAGE_NODES }, signal);
      items.push(...answer.items);
      cursor = answer.next_cursor;
      if (!cursor) break;
    }
    return { items, cursor };
  }, [toolId, JSON.stringify(of), pages]);
  if (error) return html`<${Alert} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`${data.items.map((node, index) => html`<${Node} key=${node.node_id} node=${node} toolId=${toolId} isFirst=${isTop && index === 0} ...${shared} />`)}
    ${data.cursor && html`<div role="treeitem" tabindex="-1" class="node"><div class="node-head"><button type="button" class="plain" data-toggle="" tabindex="-1" onClick=${() => setPages(pages + 1)}>Show more</button></div></div>`}`;
}

function Node({ node, toolId, isFirst, active, setActive }) {
  const [isOpen, setOpen] = useState(false);
  const isLeaf = node.level === 0;
  const files = useMemo(() => node.file_paths.slice(0, SHOWN_FILES), [node]);
  const where = isLeaf ? { chunk: node.node_id } : {};
  const more = node.file_paths.length - files.length;
  return html`<div role="treeitem" class="node" aria-expanded=${isLeaf ? undefined : isOpen ? "true" : "false"}
    aria-label=${`${isLeaf ? "Text" : `Summary of level ${node.level}`}: ${node.text.slice(0, 200)}`}
    tabindex=${active === node.node_id || (active === null && isFirst) ? "0" : "-1"}
    onFocus=${(event) => event.target === event.currentTarget && setActive(node.node_id)}>
    <div class="node-head">
      ${isLeaf ? html`<span class="kind">text</span>` : html`<button type="button" class="plain toggle" data-toggle="" tabindex="-1" aria-hidden="true" onClick=${() => setOpen(!isOpen)}>${isOpen ? "▾" : "▸"}</button>
        <span class="kind">level ${node.level}</span>`}
      <span class="quiet">${!isLeaf && `${plural(node.children_ids.length, "part")} · `}${files.map((path, index) => html`${index > 0 && ", "}<a class="mono" tabindex="-1" href=${fileHref(toolId, { file_path: path }, where)}>${path}</a>`)}${more > 0 && ` and ${number(more)} more`}</span>
    </div>
    <p class="node-text">${node.text}</p>
    ${isOpen && html`<div role="group" class="node-group"><${Nodes} of=${{ parent: node.node_id }} toolId=${toolId} active=${active} setActive=${setActive} /></div>`}
  </div>`;
}
