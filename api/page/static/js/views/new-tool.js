// Makes a tool over a folder, a bucket or dropped files. An estimate shows first what it would cost.
import { html, useState } from "../../vendor/preact-htm.js";
import { post } from "../api.js";
import { ConfigForm, useSchema } from "../config-form.js";
import { EstimateFacts } from "../estimate.js";
import { useAction } from "../hooks.js";
import { Alert, Button, Field, Heading, Loading } from "../parts.js";
import { useOwnProject, useAccess } from "../project.js";
import { go, href } from "../router.js";
import { project } from "../session.js";
import { DropFiles } from "./drop-files.js";

const KINDS = [
  ["local", "Local folder"],
  ["s3", "Bucket"],
  ["files", "Files of yours"],
];

export function NewTool({ route }) {
  const kind = KINDS.some(([name]) => name === route.query.from) ? route.query.from : "local";
  const access = useAccess();
  const own = useOwnProject(access);
  return html`<${Heading} title="New tool" />
    <p class="quiet">A tool makes one folder searchable. You can search it while it is being indexed.</p>
    <nav class="tabs" aria-label="What to index">
      ${KINDS.map(
        ([name, text]) => html`<a key=${name} href=${href("new", { from: name })} aria-current=${name === kind ? "page" : undefined}>${text}</a>`,
      )}
    </nav>
    ${own === null ? html`<${Loading} />` : kind === "files"
      ? html`<${DropFiles} projectId=${own}><${ProjectName} access=${access} own=${own} /><//>`
      : html`<${FromSource} key=${kind} kind=${kind} projectId=${own}><${ProjectName} access=${access} own=${own} /><//>`}`;
}

// Without keys a project exists once it is named.
function ProjectName({ access, own }) {
  if (access.project_id) return null;
  return html`<${Field} label="Project" value=${own} maxlength="200" required
    help="Tools are grouped by project. A new name makes a new one."
    onChange=${(event) => project.set(event.target.value.trim())} />`;
}

function FromSource({ kind, projectId, children }) {
  const [place, setPlace] = useState({ path: "", bucket: "", prefix: "" });
  const [name, setName] = useState("");
  const [config, setConfig] = useState({});
  const source = kind === "local" ? { kind, path: place.path.trim() } : { kind, bucket: place.bucket.trim(), prefix: place.prefix.trim() };
  const body = { project_id: projectId, source, ...(name.trim() && { name: name.trim() }), config };
  const estimate = useAction(async () => setEstimated(await post("api/tools/search", { ...body, dry_run: true })));
  const [estimated, setEstimated] = useState(null);
  const create = useAction(async () => {
    const tool = await post("api/tools/search", body);
    go(href("tools", tool.tool_id));
  });
  const set = (field) => (event) => (setEstimated(null), setPlace({ ...place, [field]: event.target.value }));
  const submit = (event) => {
    event.preventDefault();
    create.clear();
    if (estimated) create.run();
    else estimate.run();
  };
  const error = create.error ?? estimate.error;
  return html`<form class="card stack" onSubmit=${submit}>
    <div class="columns">
      ${kind === "local"
        ? html`<${Field} label="Path of the folder" value=${place.path} onInput=${set("path")} required spellcheck=${false}
            placeholder="/home/me/notes" help="An absolute path on the machine where Foldex runs." />`
        : html`<${Field} label="Bucket" value=${place.bucket} onInput=${set("bucket")} required minlength="3" maxlength="63" spellcheck=${false} />
            <${Field} label="Prefix" value=${place.prefix} onInput=${set("prefix")} spellcheck=${false} placeholder="handbook/"
              help="A folder in the bucket; empty: all of it." />`}
      <${Field} label="Name" value=${name} onInput=${(event) => setName(event.target.value)} maxlength="200"
        help="Empty: the name of the folder." />
      ${children}
    </div>
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
