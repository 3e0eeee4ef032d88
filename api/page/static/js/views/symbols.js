// Symbols, and the way from one to what calls it, what it calls, and where it is used.
import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { get, toolAt } from "../api.js";
import { plural, words } from "../format.js";
import { useData } from "../hooks.js";
import { Alert, Button, Empty, Field, Loading, Select } from "../parts.js";
import { go, href } from "../router.js";
import { FileLink } from "./places.js";

const WAYS = [["definitions", "Definitions"], ["callers", "Callers"], ["callees", "Callees"], ["references", "Uses"]];
const KINDS = ["class", "interface", "struct", "enum", "trait", "impl", "module", "type", "function", "method", "property", "macro", "constant", "variable"];
const DEPTHS = [["1", "one call"], ["2", "two calls"], ["3", "three calls"], ["5", "five calls"]];

export function Symbols({ toolId, route }) {
  const { query } = route;
  const way = WAYS.some(([name]) => name === query.way) ? query.way : "list";
  const show = (change, options) => go(href("tools", toolId, "symbols", { ...query, ...change }), options);
  const type = (event) => show({ name: event.target.value, way: "", scope: "", file_id: "" }, { replace: true });
  return html`<form class="row" role="search" aria-label="Find symbols" onSubmit=${(event) => (event.preventDefault(), show({ way: "definitions" }))}>
      <${Field} label="Name" class="grow" type="search" data-search="" autocomplete="off" value=${query.name ?? ""} onInput=${type}
        placeholder="Foo.run" />
      <${Field} label="Kind">
        ${(own) => html`<${Select} ...${own} value=${query.kind ?? ""} onChange=${(event) => show({ kind: event.target.value, way: "" })}
          options=${[["", "Any"], ...KINDS.map((kind) => [kind, kind])]} />`}
      <//>
    </form>
    ${way === "list" ? html`<${Listed} toolId=${toolId} path="symbols" of=${{ prefix: query.name, kind: query.kind }} />` : html`<${Walk} toolId=${toolId} query=${query} way=${way} show=${show} />`}`;
}

// One symbol, and one way to look at it.
function Walk({ toolId, query, way, show }) {
  const { name, scope, file_id: fileId, depth = "1" } = query;
  const own = { name, scope, file_id: fileId };
  const calls = way === "callers" || way === "callees";
  return html`<div class="heading walk"><h2 class="mono">${name}</h2>${scope && html`<span class="quiet">in ${scope}</span>`}</div>
    <nav class="tabs" aria-label=${`Ways from ${name}`}>
      ${WAYS.map(([value, text]) => html`<a key=${value} href=${href("tools", toolId, "symbols", { ...query, way: value })}
        aria-current=${value === way ? "true" : undefined}>${text}</a>`)}
    </nav>
    ${calls && html`<div class="row"><${Field} label="Follow">
      ${(field) => html`<${Select} ...${field} options=${DEPTHS} value=${depth} onChange=${(event) => show({ depth: event.target.value })} />`}<//></div>`}
    ${calls && html`<${Calls} toolId=${toolId} way=${way} of=${{ ...own, depth }} />`}
    ${way === "definitions" && html`<${Listed} toolId=${toolId} path="symbols" of=${{ name }} />`}
    ${way === "references" && html`<${Listed} toolId=${toolId} path="references" of=${{ name: name?.split(/[.:/]+/).at(-1) }} />`}`;
}

// A list in pages: definitions, or uses of a name.
function Listed({ toolId, path, of }) {
  const asked = JSON.stringify(of);
  const [pages, setPages] = useState(1);
  useEffect(() => setPages(1), [asked, path]);
  const { data, error } = useData(async (signal) => {
    let cursor = null;
    const items = [];
    for (let page = 0; page < pages; page += 1) {
      const answer = await get(toolAt(toolId, path), { ...of, cursor }, signal);
      items.push(...answer.items);
      cursor = answer.next_cursor;
      if (!cursor) break;
    }
    return { items, cursor };
  }, [toolId, path, asked, pages]);
  if (error) return html`<${Alert} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  if (!data.items.length) return html`<${Empty} title=${path === "symbols" ? "No such symbol" : "No use of this name"}>
    <p>${path === "symbols" ? "Names begin as you type them, in the same case. Only code has symbols." : "Uses are found in code only."}</p><//>`;
  return html`<p class="quiet" role="status">${plural(data.items.length, path === "symbols" ? "definition" : "use")}${data.cursor ? ", and more" : ""}</p>
    <ul class="plain-list symbols">
      ${data.items.map((each) => html`<li key=${`${each.file_id} ${each.start_line} ${each.kind} ${each.name}`}>
        ${each.signature === undefined ? html`<${Used} toolId=${toolId} use=${each} />` : html`<${Definition} toolId=${toolId} item=${each} />`}
      </li>`)}
    </ul>
    ${data.cursor && html`<div class="actions"><${Button} onClick=${() => setPages(pages + 1)}>Show more<//></div>`}`;
}

const walkHref = (toolId, item, way) =>
  href("tools", toolId, "symbols", { name: item.name, scope: item.scope, file_id: item.file_id, way });

function Definition({ toolId, item }) {
  const link = (way, text) => html`<a href=${walkHref(toolId, item, way)} aria-label=${`${text} of ${item.name}`}>${text}</a>`;
  return html`<p><span class="kind">${item.kind}</span> <b class="mono">${item.name}</b>${item.scope && html` <span class="quiet">in ${item.scope}</span>`}</p>
    <p class="quiet mono signature">${item.signature}</p>
    <p class="links"><${FileLink} toolId=${toolId} place=${item} line=${item.start_line} to=${item.end_line} />
      ${link("callers", "Callers")} ${link("callees", "Callees")} ${link("references", "Uses")}</p>`;
}

function Used({ toolId, use }) {
  const outer = use.scope?.split("/").at(-1);
  return html`<p><span class="kind">${use.kind}</span> ${outer ? html`in <a class="mono" href=${walkHref(toolId, { name: outer }, "definitions")}>${use.scope}</a>` : "outside all definitions"}</p>
    <p class="links"><${FileLink} toolId=${toolId} place=${use} line=${use.start_line} to=${use.end_line} /></p>`;
}

function Calls({ toolId, way, of }) {
  const { data, error } = useData((signal) => get(toolAt(toolId, "symbols", way), of, signal), [toolId, way, JSON.stringify(of)]);
  if (error) return html`<${Alert} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  const what = way === "callers" ? "calls it" : "is called by it";
  return html`${data.ambiguous && html`<div class="note" role="note"><p>The name has ${plural(data.definitions, "definition")}, so some of these calls may mean
      another one. <a href=${walkHref(toolId, { name: of.name }, "definitions")}>Choose one of them.</a></p></div>`}
    ${data.truncated && html`<div class="note" role="note"><p>There may be more: a limit was reached.</p></div>`}
    ${!data.items.length && html`<${Empty} title=${`Nothing ${what}`}><p>Only calls in indexed code are known.</p><//>`}
    <ul class="plain-list symbols">
      ${data.items.map((call, index) => html`<li key=${index} style=${{ marginLeft: `${Math.min(call.depth - 1, 4) * 1.25}rem` }}><${Called} toolId=${toolId} call=${call} way=${way} /></li>`)}
    </ul>`;
}

// A call without a file is outside the folder, or outside all definitions.
function Called({ toolId, call, way }) {
  const link = (to, text) => html`<a href=${walkHref(toolId, call, to)} aria-label=${`${text} of ${call.name}`}>${text}</a>`;
  return html`<p>${call.kind && html`<span class="kind">${call.kind}</span> `}<b class="mono">${call.name ?? "Code outside all definitions"}</b>
      ${call.depth > 1 && html` <span class="quiet">by way of ${call.via}</span>`}
      ${call.ambiguous && html` <span class="quiet">(one of ${call.definitions} of this name)</span>`} <span class="quiet">${words(call.confidence)}</span></p>
    ${call.signature && html`<p class="quiet mono signature">${call.signature}</p>`}
    <p class="links">
      ${call.file_path ? html`<${FileLink} toolId=${toolId} place=${call} line=${way === "callers" ? call.line : call.start_line} />` : html`<span class="quiet">not defined in this folder</span>`}
      ${call.name && call.file_path && html`${link("callers", "Callers")} ${link("callees", "Callees")} ${link("references", "Uses")}`}</p>`;
}
