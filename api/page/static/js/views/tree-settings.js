// The settings of the tree, made from the service's own description of them. Only what was changed is sent.
import { html, useState } from "../../vendor/preact-htm.js";
import { call, toolAt } from "../api.js";
import { ConfigForm, useSchema } from "../config-form.js";
import { useAction } from "../hooks.js";
import { Alert, Button, Loading } from "../parts.js";

export function TreeSettings({ tool, toolId, onChange }) {
  const { schema, error } = useSchema("RaptorConfig");
  const [draft, setDraft] = useState({});
  const [isSaved, setSaved] = useState(false);
  const present = tool.config.raptor ?? {};
  const save = useAction(async () => {
    await call("PATCH", toolAt(toolId), { body: { config: { raptor: draft } } });
    setDraft({});
    setSaved(true);
    onChange();
  });
  const edit = (next) => {
    setSaved(false);
    setDraft(Object.fromEntries(Object.entries(next).filter(([name, value]) => value !== present[name])));
  };
  return html`<details class="card">
    <summary><h2>Settings of the tree</h2></summary>
    <${Alert} error=${error} />
    ${!schema && !error && html`<${Loading} />`}
    ${schema &&
    html`<form onSubmit=${(event) => (event.preventDefault(), save.run())}>
      <${ConfigForm} schema=${schema} value=${{ ...present, ...draft }} onChange=${edit} errors=${save.error?.errors} />
      <${Alert} error=${save.error} />
      <p role="status" class="quiet">${isSaved && "Saved. An enabled tree follows the settings."}</p>
      <div class="actions">
        <${Button} type="submit" class="primary" action=${save} busyText="Saving …">Save the settings<//>
        <${Button} onClick=${() => setDraft({})}>Undo changes<//>
      </div>
    </form>`}
  </details>`;
}
