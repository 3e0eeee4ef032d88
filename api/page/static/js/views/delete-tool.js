// Asks before a folder leaves Foldex.
import { html } from "../../vendor/preact-htm.js";
import { call, toolAt } from "../api.js";
import { Confirm } from "../parts.js";

export function DeleteTool({ tool, onDone, onClose }) {
  const close = () => (onClose(), onDone());
  return html`<${Confirm} title=${`Remove ${tool.name}?`} verb="Remove the folder" onClose=${onClose} onDone=${close}
    text="Its index is deleted unless another one shares it. The files themselves stay as they are."
    act=${() => call("DELETE", toolAt(tool.tool_id))} />`;
}
