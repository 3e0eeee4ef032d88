// A tool's name and config. Only what was changed is sent.
import { html, useState } from "../../vendor/preact-htm.js";
import { call, toolAt } from "../api.js";
import { ConfigForm, useSchema } from "../config-form.js";
import { useAction } from "../hooks.js";
import { Alert, Button, Field, Loading } from "../parts.js";
import { href } from "../router.js";

export function Settings({ tool, toolId, reload, again }) {
  const { schema, error } = useSchema("ToolConfig");
  const present = tool.updating?.config ?? tool.config;
  const [name, setName] = useState(tool.name);
  const [config, setConfig] = useState(present);
  const [isSaved, setIsSaved] = useState(false);
  const changed = Object.fromEntries(
    Object.entries(config).filter(([field, value]) => JSON.stringify(value) !== JSON.stringify(present[field])),
  );
  const body = { ...(name !== tool.name && { name }), ...(Object.keys(changed).length && { config: changed }) };
  const save = useAction(async () => {
    const saved = await call("PATCH", toolAt(toolId), { body });
    setName(saved.name);
    setConfig(saved.updating?.config ?? saved.config);
    setIsSaved(true);
    again();
    reload();
  });
  const edit = (set) => (value) => (setIsSaved(false), set(value));
  if (!schema) return error ? html`<${Alert} error=${error} />` : html`<${Loading} />`;
  return html`<form class="card" onSubmit=${(event) => (event.preventDefault(), save.run())}>
    <h2>Settings</h2>
    <p class="quiet">If a change needs another index, it is built beside the present one, which answers until it is ready.
      The tree of summaries has <a href=${href("tools", toolId, "tree")}>its own settings</a>.</p>
    <${Field} class="narrow" label="Name" value=${name} required maxlength="200" onInput=${(event) => edit(setName)(event.target.value)} />
    <${ConfigForm} schema=${schema} value=${config} onChange=${edit(setConfig)} errors=${save.error?.errors} />
    <${Alert} error=${save.error} />
    <p role="status" class="quiet">${isSaved ? "Saved." : ""}</p>
    <div class="actions">
      <${Button} type="submit" class="primary" action=${save} busyText="Saving …" disabled=${!Object.keys(body).length}>Save<//>
      <${Button} onClick=${() => (setName(tool.name), setConfig(present))}>Undo changes<//>
    </div>
  </form>`;
}
