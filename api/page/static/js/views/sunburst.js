// The summaries of a tree as rings: the top in the middle, what each summarises around it.
import { html, useRef, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { number, plural } from "../format.js";
import { useData } from "../hooks.js";
import { Alert } from "../parts.js";
import { ringPart } from "../shapes.js";

const PAGE_NODES = 500;
// Summaries of one picture. Lower levels of a larger tree are left to the list.
const MOST_NODES = 600;
const RADIUS = 200;
const MIDDLE = 30;
const FILES = 5;

// The summaries by id, from the top level down to the last one that fits.
async function summariesOf(toolId, state, signal) {
  const nodes = new Map();
  let lowest = state.max_level;
  for (let level = state.max_level; level > 0; level -= 1) {
    const size = state.nodes_by_level.find((each) => each.level === level)?.count ?? 0;
    if (nodes.size + size > MOST_NODES) break;
    let cursor = null;
    do {
      const answer = await get(toolAt(toolId, "raptor", "nodes"), { level, limit: PAGE_NODES, cursor }, signal);
      for (const node of answer.items) nodes.set(node.node_id, node);
      cursor = answer.next_cursor;
    } while (cursor);
    lowest = level;
  }
  return { nodes, lowest };
}

// Each node as a part of a ring, as wide as its share of what is below. A node of several parents stands below the first.
export function partsOf(nodes, top) {
  const placed = new Set();
  const widths = new Map();
  const width = (node) => {
    if (!widths.has(node.node_id)) {
      widths.set(node.node_id, 1);
      const below = node.children_ids.map((id) => nodes.get(id)).filter(Boolean);
      widths.set(node.node_id, below.length ? below.reduce((sum, each) => sum + width(each), 0) : Math.max(1, node.children_ids.length));
    }
    return widths.get(node.node_id);
  };
  const parts = [];
  const place = (list, from, to, depth) => {
    const own = list.filter((node) => !placed.has(node.node_id) && placed.add(node.node_id));
    const whole = own.reduce((sum, node) => sum + width(node), 0);
    let at = from;
    for (const node of own) {
      const end = at + ((to - from) * width(node)) / whole;
      parts.push({ node, depth, from: at, to: end });
      place(node.children_ids.map((id) => nodes.get(id)).filter(Boolean), at, end, depth + 1);
      at = end;
    }
  };
  place([...nodes.values()].filter(({ level }) => level === top), 0, 1, 0);
  return parts;
}

export function Sunburst({ toolId, state }) {
  const box = useRef(null);
  const [chosen, setChosen] = useState(null);
  const { data, error } = useData((signal) => summariesOf(toolId, state, signal), [toolId, state.last_build_time]);
  if (!data) return html`<${Alert} error=${error} />`;
  const parts = partsOf(data.nodes, state.max_level);
  if (parts.length < 2) return null;
  const rings = Math.max(...parts.map(({ depth }) => depth)) + 1;
  const thick = (RADIUS - MIDDLE) / rings;
  const shown = parts.find(({ node }) => node.node_id === chosen) ?? parts[0];
  // in and out with up and down, around with left and right
  function press(event) {
    const links = [...box.current.querySelectorAll("[data-depth]")];
    const here = links.indexOf(document.activeElement);
    if (here < 0) return;
    const depth = parts[here].depth;
    const find = (list, wanted) => list.find((index) => parts[index].depth === wanted);
    const all = parts.map((_, index) => index);
    const [before, after] = [all.slice(0, here).reverse(), all.slice(here + 1)];
    const next = { ArrowRight: find(after, depth), ArrowLeft: find(before, depth), ArrowUp: find(before, depth - 1), Home: 0,
      ArrowDown: parts[here + 1]?.depth === depth + 1 ? here + 1 : undefined }[event.key];
    if (!/^Arrow|^Home$/.test(event.key)) return;
    event.preventDefault();
    links[next]?.focus();
  }
  return html`<section class="card" aria-label="Picture of the tree">
    <h2>Picture</h2>
    <p class="quiet">The middle summarises all; each ring tells more.${data.lowest > 1 && ` Levels below ${number(data.lowest)} are in the list only.`} Arrow keys move in, out and around.</p>
    <div class="burst">
      <svg viewBox=${`${-RADIUS} ${-RADIUS} ${2 * RADIUS} ${2 * RADIUS}`} role="listbox" aria-label="Summaries by ring" ref=${box} onKeyDown=${press}>
        ${parts.map(({ node, depth, from, to }) => html`<path key=${node.node_id} data-depth=${depth} role="option" class=${`ring ring-${(depth + Math.round(from * 24)) % 3}`}
          aria-selected=${shown.node === node ? "true" : "false"} tabindex=${shown.node === node ? "0" : "-1"}
          aria-label=${`Level ${node.level}: ${node.text.slice(0, 120)}`} d=${ringPart(MIDDLE + depth * thick, MIDDLE + (depth + 1) * thick, from, to)}
          onFocus=${() => setChosen(node.node_id)} onClick=${(event) => event.currentTarget.focus()} />`)}
      </svg>
      <div class="burst-text">
        <p><b>Level ${shown.node.level}</b> <span class="quiet">${plural(shown.node.children_ids.length, "part")}</span></p>
        <p>${shown.node.text}</p>
        <p class="quiet mono">${shown.node.file_paths.slice(0, FILES).join(", ")}${shown.node.file_paths.length > FILES && ` and ${number(shown.node.file_paths.length - FILES)} more`}</p>
      </div>
    </div>
  </section>`;
}
