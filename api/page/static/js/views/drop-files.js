// Files from this computer: they are stored in a new folder of the project, which is indexed and stays indexed.
import { html, useState } from "../../vendor/preact-htm.js";
import { at, call, post } from "../api.js";
import { bytes, plural } from "../format.js";
import { useAction } from "../hooks.js";
import { Alert, Button, Field } from "../parts.js";
import { go, href } from "../router.js";

export function DropFiles({ projectId, children }) {
  const [chosen, setChosen] = useState([]);
  const [name, setName] = useState("");
  const [isOver, setIsOver] = useState(false);
  const [folder, setFolder] = useState(null);
  const [refused, setRefused] = useState([]);
  const [toolId, setToolId] = useState(null);
  const add = (files) => setChosen((old) => [...old, ...files]);
  const send = useAction(async () => {
    // after a failed upload the folder is there already
    const parent = folder ?? (await post(at("projects", projectId, "nodes"), { name: name.trim() || "uploads", type: "folder" })).id;
    setFolder(parent);
    const form = new FormData();
    form.append("parent_id", parent);
    form.append("index", "true");
    for (const { file, path } of chosen) form.append("files", file, path);
    const told = await call("POST", at("projects", projectId, "uploads"), { form });
    const bad = told.items.filter((each) => each.outcome === "refused");
    setRefused(bad);
    if (told.index_error) throw told.index_error;
    setToolId(told.tool_id);
    if (!bad.length) go(href("tools", told.tool_id));
  });
  const drop = async (event) => {
    event.preventDefault();
    setIsOver(false);
    add(await dropped(event.dataTransfer));
  };
  const total = chosen.reduce((sum, { file }) => sum + file.size, 0);
  return html`<form class="card stack" onSubmit=${(event) => (event.preventDefault(), chosen.length && send.run())}>
    <div class=${`drop ${isOver ? "over" : ""}`} onDrop=${drop} onDragOver=${(event) => (event.preventDefault(), setIsOver(true))}
      onDragLeave=${() => setIsOver(false)}>
      <p><strong>Drop files or folders here</strong>, or choose them.</p>
      <div class="row">
        <${Field} label="Files" type="file" multiple onChange=${(event) => add(picked(event))} />
        <${Field} label="A whole folder" type="file" webkitdirectory onChange=${(event) => add(picked(event))} />
      </div>
    </div>
    <p role="status">${chosen.length ? `${plural(chosen.length, "file")}, ${bytes(total)}` : "Nothing is chosen yet."}</p>
    <div class="columns">
      <${Field} label="Name" value=${name} onInput=${(event) => setName(event.target.value)} maxlength="200"
        help="Name of the new folder; empty: uploads." />
      ${children}
    </div>
    <${Alert} error=${send.error} />
    ${refused.length > 0 && html`<${Refused} files=${refused} toolId=${toolId} />`}
    <div class="actions">
      <${Button} type="submit" class="primary" action=${send} busyText="Uploading …" disabled=${!chosen.length}>Upload and index<//>
      ${chosen.length > 0 && html`<${Button} onClick=${() => setChosen([])}>Choose others<//>`}
    </div>
  </form>`;
}

function Refused({ files, toolId }) {
  return html`<div class="alert" role="alert">
    <p>${plural(files.length, "file was", "files were")} not stored:</p>
    <ul>${files.map((each) => html`<li key=${each.file_path}><code>${each.file_path}</code>: ${each.message}</li>`)}</ul>
    ${toolId && html`<p><a href=${href("tools", toolId)}>Go on to the folder with the others</a></p>`}
  </div>`;
}

const picked = (event) => [...event.target.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

// All files of a drop, those in folders too.
async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  return (await Promise.all(entries.map((entry) => filesOf(entry, "")))).flat();
}

async function filesOf(entry, above) {
  const path = above + entry.name;
  if (entry.isFile) return [{ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path }];
  const reader = entry.createReader();
  const found = [];
  // a reader returns its entries in batches, the last of which is empty
  for (;;) {
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!batch.length) return found;
    for (const each of batch) found.push(...(await filesOf(each, `${path}/`)));
  }
}
