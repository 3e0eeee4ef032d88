// Makes a tool over a source of any kind that the service has, or dropped files. An estimate shows first what it would cost.
import { html, useState } from "../../vendor/preact-htm.js";
import { get, post } from "../api.js";
import { ConfigForm, useSchema } from "../config-form.js";
import { EstimateFacts } from "../estimate.js";
import { useAction, useData } from "../hooks.js";
import { Alert, Button, Field, Heading, Loading } from "../parts.js";
import { useOwnProject, useAccess } from "../project.js";
import { go, href } from "../router.js";
import { project } from "../session.js";
import { DropFiles } from "./drop-files.js";

const FILES = { kind: "files", title: "Files of yours" };

export function NewTool({ route }) {
  const access = useAccess();
  const own = useOwnProject(access);
  const { data: sources, error } = useData((signal) => get("api/sources", {}, signal), []);
  return html`<${Heading} title="New tool" />
    <p class="quiet">A tool makes one folder searchable. You can search it while it is being indexed.</p>
    ${sources && own !== null
      ? html`<${Choice} kinds=${[...sources, FILES]} from=${route.query.from} projectId=${own}><${ProjectName} access=${access} own=${own} /><//>`
      : error ? html`<${Alert} error=${error} />` : html`<${Loading} />`}`;
}

function Choice({ kinds, from, projectId, children }) {
  const chosen = kinds.find(({ kind }) => kind === from) ?? kinds[0];
  return html`<nav class="tabs" aria-label="What to index">
      ${kinds.map(
        (each) => html`<a key=${each.kind} href=${href("new", { from: each.kind })} aria-current=${each === chosen ? "page" : undefined}>${each.title}</a>`,
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
    help="Tools are grouped by project. A new name makes a new one."
    onChange=${(event) => project.set(event.target.value.trim())} />`;
}

function FromSource({ of, projectId, children }) {
  const [fields, setFields] = useState({});
  const [name, setName] = useState("");
  const [config, setConfig] = useState({});
  const source = { kind: of.kind, ...given(fields) };
  const body = { project_id: projectId, source, ...(name.trim() && { name: name.trim() }), config };
  const estimate = useAction(async () => setEstimated(await post("api/tools/search", { ...body, dry_run: true })));
  const [estimated, setEstimated] = useState(null);
  const create = useAction(async () => {
    const tool = await post("api/tools/search", body);
    go(href("tools", tool.tool_id));
  });
  const submit = (event) => {
    event.preventDefault();
    create.clear();
    if (estimated) create.run();
    else estimate.run();
  };
  const error = create.error ?? estimate.error;
  return html`<form class="card stack" onSubmit=${submit}>
    <${ConfigForm} schema=${of.source_schema} value=${fields} errors=${error?.errors}
      onChange=${(next) => (setEstimated(null), setFields(next))}>
      <${Field} label="Name" value=${name} onInput=${(event) => setName(event.target.value)} maxlength="200"
        help="Empty: the name of the folder." />
      ${children}
    <//>
    <${Options} config=${config} onChange=${(next) => (setEstimated(null), setConfig(next))} errors=${error?.errors} />
    <${Alert} error=${error} />
    <div aria-live="polite">${estimated && html`<${EstimateFacts} estimate=${estimated} />`}</div>
    <div class="actions">
      <${Button} type=${estimated ? "button" : "submit"} class=${estimated ? "" : "primary"} action=${estimate}
        busyText="Looking at the folder …">
        ${estimated ? "Estimate again" : "Estimate"}
      <//>
      ${estimated
        ? html`<${Button} type="submit" class="primary" action=${create} busyText="Creating …">Index it<//>`
        : html`<${Button} action=${create} busyText="Creating …"
            onClick=${(event) => event.target.form.reportValidity() && create.run()}>Index it without an estimate<//>`}
    </div>
  </form>`;
}

// The fields that are filled in.
function given(fields) {
  const trimmed = Object.entries(fields).map(([name, value]) => [name, value?.trim?.() ?? value]);
  return Object.fromEntries(trimmed.filter(([, value]) => value !== null && value !== ""));
}

// The settings, which are loaded when they are opened.
function Options({ config, onChange, errors }) {
  const [isOpen, setIsOpen] = useState(false);
  return html`<details onToggle=${(event) => setIsOpen(event.target.open)}>
    <summary>Settings</summary>
    ${isOpen && html`<${Loaded} config=${config} onChange=${onChange} errors=${errors} />`}
  </details>`;
}

function Loaded({ config, onChange, errors }) {
  const { schema, error } = useSchema("ToolConfig");
  if (!schema) return error ? html`<${Alert} error=${error} />` : html`<${Loading} />`;
  return html`<${ConfigForm} schema=${schema} value=${config} onChange=${onChange} errors=${errors} />`;
}
