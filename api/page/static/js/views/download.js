// Keeps a file on this computer: its original, if it was sent to the service, or else its text as it was read.
import { html } from "../../vendor/preact-htm.js";
import { at, download, get, toolAt } from "../api.js";
import { useAction } from "../hooks.js";
import { Alert, Button } from "../parts.js";

// `nodeOf` returns the id of the file's node. `which` begins the name of the button, such as "Download the".
export function Download({ tool, path, fileId, nodeOf, which, ...attributes }) {
  const isOriginal = Boolean(tool?.node_id);
  const fetched = useAction(async () => {
    const name = path.split("/").at(-1);
    if (isOriginal) return keep(await download(at("projects", tool.project_id, "nodes", await nodeOf(), "content")), name);
    const { text } = await get(toolAt(tool.tool_id, "files", fileId));
    return keep(new Blob([text], { type: "text/plain" }), `${name}.txt`);
  });
  if (!tool) return null;
  return html`<${Button} action=${fetched} busyText="Downloading …" ...${attributes}>${which} ${isOriginal ? "original" : "text"}<//><${Alert} error=${fetched.error} />`;
}

function keep(content, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // Chromium reads it after the click
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
