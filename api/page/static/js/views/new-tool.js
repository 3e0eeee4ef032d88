// Adds a folder: of the service's machine, of any other source that the service has, or dropped files. What it would
// cost appears while it is named.
import { html, useEffect, useState } from "../../vendor/preact-htm.js";
import { call, get, post } from "../api.js";
import { ConfigForm, useSchema } from "../config-form.js";
import { EstimateFacts } from "../estimate.js";
import { bytes, plural } from "../format.js";
import { useAction, useData } from "../hooks.js";
import { sentenceOf } from "../messages.js";
import { Alert, Button, Command, Dialog, Field, Heading, Loading } from "../parts.js";
import { MayNotWrite, mayWriteWith, useAccess, useOwnProject } from "../project.js";
import { go, href } from "../router.js";
import { project } from "../session.js";
import { DropFiles } from "./drop-files.js";
import { PlacePicker, useSettled } from "./place-picker.js";

const FILES = { kind: "files", title: "Files of yours" };
// The page's words for kinds whose title names them as programs do.
const TITLES = { local: "A folder", s3: "A bucket", nodes: "Stored files" };
const PAUSE_MS = 500;
const BUSY_MS = 1500;
// Files that are indexed without a question, as on the command line.
const MAX_UNASKED_FILES = 100_000;
// The service's machine lets Foldex read no such folder.
const NOT_PERMITTED = "source_refused";

export function NewTool({ route }) {
  const access = useAccess();
  const own = useOwnProject(access);
  const { data: sources, error } = useData((signal) => get("api/sources", {}, signal), []);
  return html`<${Heading} title="Add a folder" />
    ${!mayWriteWith(access) ? html`<${MayNotWrite} />` : sources && own !== null
      ? html`<${Choice} kinds=${[...sources].sort((one) => (one.kind === "local" ? -1 : 0)).concat(FILES)} from=${route.query.from} projectId=${own}><${ProjectName} access=${access} own=${own} /><//>`
      : error ? html`<${Alert} error=${error} />` : html`<${Loading} />`}`;
}

function Choice({ kinds, from, projectId, children }) {
  const chosen = kinds.find(({ kind }) => kind === from) ?? kinds[0];
  return html`<nav class="tabs" aria-label="What to add">
      ${kinds.map(
        (each) => html`<a key=${each.kind} href=${href("new", { from: each.kind })} aria-current=${each === chosen ? "page" : undefined}>${TITLES[each.kind] ?? each.title}</a>`,
      )}
    </nav>
    ${chosen === FILES
      ? html`<${DropFiles} projectId=${projectId}>${children}<//>`
      : html`<${FromSource} key=${chosen.kind} of=${chosen} projectId=${projectId}>${children}<//>`}`;
}

// Without keys a project exists once it is named.
function ProjectName({ access, own }) {
  if (access.project_id) return null;
  return html`<${Field} label="Project" value=${own} maxlength="200" required
    help="Folders are grouped by project. A new name makes a new one."
    onChange=${(event) => project.set(event.target.value.trim())} />`;
}

// What indexing would cost, as soon as enough is known: { estimate, error, busy, again }.
function useEstimate(body, isComplete) {
  const [state, setState] = useState({});
  const [turn, setTurn] = useState(0);
  const asked = useSettled(JSON.stringify(isComplete ? body : null), PAUSE_MS);
  useEffect(() => {
    if (asked === "null") return setState({});
    const stop = new AbortController();
    const settle = (next) => stop.signal.aborted || setState(next);
    setState({ busy: true });
    call("POST", "api/tools/search", { body: { ...JSON.parse(asked), dry_run: true }, signal: stop.signal }).then(
      (estimate) => settle({ estimate }),
      (error) => {
        // the service lists few folders at once, such as the one before
        if (error.code === "estimate_busy") setTimeout(() => stop.signal.aborted || setTurn((old) => old + 1), BUSY_MS);
        else settle({ error });
      },
    );
    return () => stop.abort();
  }, [asked, turn]);
  return { ...state, again: () => setTurn((old) => old + 1) };
}

function FromSource({ of, projectId, children }) {
  const [fields, setFields] = useState({});
  const [name, setName] = useState("");
  const [config, setConfig] = useState({});
  const source = { kind: of.kind, ...given(fields) };
  const body = { project_id: projectId, source, ...(name.trim() && { name: name.trim() }), config };
  const isComplete = (of.source_schema.required ?? []).every((field) => source[field] !== undefined);
  const estimate = useEstimate(body, isComplete);
  const mayPermit = useData((signal) => get("api/places", { limit: 1 }, signal), []).data?.may_permit;
  const permit = async () => {
    const { path } = await post("api/places", { path: source.path });
    setFields({ path });
    return { kind: of.kind, path };
  };
  const create = useAction(async () => {
    const make = (from) => post("api/tools/search", { ...body, source: from });
    const made = await make(source).catch(async (error) => {
      if (error.code !== NOT_PERMITTED || !mayPermit) throw error;
      return make(await permit());
    });
    go(href("tools", made.tool_id));
  });
  const [isAsked, setIsAsked] = useState(false);
  const size = estimate.estimate;
  const isLarge = size && (!size.complete || size.total_files > MAX_UNASKED_FILES);
  const submit = (event) => {
    event.preventDefault();
    if (isLarge) setIsAsked(true);
    else create.run();
  };
  const change = (next) => (create.clear(), setFields(next));
  const error = create.error ?? estimate.error;
  const isRefused = of.kind === "local" && error?.code === NOT_PERMITTED;
  return html`<form class="card stack" onSubmit=${submit}>
    ${of.kind === "local"
      ? html`<${PlacePicker} value=${fields.path ?? ""} onChange=${(path) => change({ path })} />`
      : html`<${ConfigForm} schema=${of.source_schema} value=${fields} errors=${error?.errors} onChange=${change} />`}
    <div aria-live="polite">
      ${estimate.busy && html`<p class="quiet">Looking at the folder …</p>`}
      ${isRefused && html`<${Refused} path=${source.path} mayPermit=${mayPermit} permit=${permit} again=${() => (create.clear(), estimate.again())} />`}
      ${estimate.error && !isRefused && !create.error && html`<p class="note">${sentenceOf(estimate.error)}</p>`}
      ${estimate.estimate && html`<${EstimateFacts} estimate=${estimate.estimate} />`}
    </div>
    <${Alert} error=${isRefused ? null : create.error} />
    <div class="actions"><${Button} type="submit" class="primary" action=${create} busyText="Adding …">Index<//></div>
    ${isAsked && html`<${Dialog} title="Index so much?" onClose=${() => setIsAsked(false)}>
      <p>This folder has ${size?.complete ? "" : "more than "}${plural(size?.total_files ?? 0, "file")}, ${bytes(size?.total_bytes ?? 0)}. Is it the one that you mean?</p>
      <div class="actions">
        <${Button} onClick=${() => setIsAsked(false)} autofocus>Choose another one<//>
        <${Button} class="primary" action=${create} onClick=${() => (setIsAsked(false), create.run())}>Index all of it<//>
      </div>
    <//>`}
    <${Options} config=${config} onChange=${setConfig} errors=${error?.errors}>
      <div class="columns">
        <${Field} label="Name" value=${name} onInput=${(event) => setName(event.target.value)} maxlength="200"
          help="Empty: the name of the folder." />
        ${children}
      </div>
    <//>
  </form>`;
}

// The machine lets Foldex read no such folder: what to do.
function Refused({ path, mayPermit, permit, again }) {
  const action = useAction(async () => (await permit(), again()));
  if (mayPermit) {
    return html`<div class="note"><p>Foldex has not been allowed to read this folder yet. “Index” allows it, and so does this button.</p>
      <${Alert} error=${action.error} />
      <div class="actions"><${Button} action=${action} busyText="One moment …">Allow it to read the folder<//></div></div>`;
  }
  return html`<div class="note"><p>Foldex has not been allowed to read this folder. Run this command in a terminal, and it appears here:</p>
    <${Command} text=${`foldex index ${quoted(path)}`} />
    <p>Or open this page by the link that “foldex open” prints: there any folder of yours can be added.</p></div>`;
}

// As a shell takes it, whatever characters the path has.
const quoted = (path) => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

// The fields that are filled in.
function given(fields) {
  const trimmed = Object.entries(fields).map(([name, value]) => [name, value?.trim?.() ?? value]);
  return Object.fromEntries(trimmed.filter(([, value]) => value !== null && value !== ""));
}

// The settings, which are loaded when they are opened.
function Options({ config, onChange, errors, children }) {
  const [isOpen, setIsOpen] = useState(false);
  return html`<details onToggle=${(event) => setIsOpen(event.target.open)}>
    <summary>Name, project and settings</summary>
    ${children}
    ${isOpen && html`<${Loaded} config=${config} onChange=${onChange} errors=${errors} />`}
  </details>`;
}

function Loaded({ config, onChange, errors }) {
  const { schema, error } = useSchema("ToolConfig");
  if (!schema) return error ? html`<${Alert} error=${error} />` : html`<${Loading} />`;
  return html`<${ConfigForm} schema=${schema} value=${config} onChange=${onChange} errors=${errors} />`;
}
