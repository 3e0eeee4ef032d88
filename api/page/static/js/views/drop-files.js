// Files from this computer: they are stored in a new folder of the project, which is indexed and stays indexed.
import { html, useState } from "../../vendor/preact-htm.js";
import { at, call, post } from "../api.js";
import { choose, chosen, forget } from "../dropped.js";
import { bytes, number, plural } from "../format.js";
import { useAction } from "../hooks.js";
import { refusalOf } from "../messages.js";
import { Alert, Bar, Button, Field } from "../parts.js";
import { currentRoute, go, href } from "../router.js";
import { useStore } from "../store.js";

// Files and bytes of one request, fewer than the service takes. A larger file has one of its own.
const BATCH_FILES = 250;
const BATCH_BYTES = 32_000_000;
// Names of a list that are shown.
const NAMED = 50;

export function DropFiles({ projectId, children }) {
  const { files, unread, doubled, looks, isEmpty } = useStore(chosen);
  const [name, setName] = useState("");
  const [isOver, setIsOver] = useState(false);
  const [folder, setFolder] = useState(null);
  const [sent, setSent] = useState(null);
  const [refused, setRefused] = useState([]);
  const [toolId, setToolId] = useState(null);
  // a control does not tell of the file that it has already
  const [turn, setTurn] = useState(0);
  const top = topOf(files.keys());
  const send = useAction(async () => {
    const bad = unread.map((path) => ({ file_path: path, reason: "unreadable" }));
    // after a failed upload the folder is there already, and files that are there already change nothing
    const parent = folder ?? (await post(at("projects", projectId, "nodes"), { name: name.trim() || top || "uploads", type: "folder" })).id;
    setFolder(parent);
    let tool = null;
    let count = 0;
    for (const batch of batchesOf(files)) {
      setSent(count);
      const form = new FormData();
      form.append("parent_id", parent);
      form.append("index", "true");
      const before = bad.length;
      for (const [path, file] of batch) {
        // the request would fail as a whole
        if (await isReadable(file)) form.append("files", file, path.slice(top ? top.length + 1 : 0));
        else bad.push({ file_path: path, reason: "unreadable" });
      }
      if (bad.length - before < batch.length) {
        const told = await call("POST", at("projects", projectId, "uploads"), { form });
        bad.push(...told.items.filter((each) => each.outcome === "refused"));
        if (told.index_error) throw told.index_error;
        tool = told.tool_id;
      }
      count += batch.length;
    }
    setRefused(bad);
    setToolId(tool);
    setFolder(null);
    forget(files);
    if (!bad.length && currentRoute().path === "new") go(href("tools", tool));
  });
  const total = [...files.values()].reduce((sum, file) => sum + file.size, 0);
  const said = looks > 0 ? "Looking into what was dropped …" : files.size ? `${plural(files.size, "file")}, ${bytes(total)}`
    : toolId ? "Stored." : isEmpty ? "No file is in it." : "Nothing is chosen yet.";
  const clear = () => (forget(), setRefused([]), setToolId(null), setFolder(null), setTurn(turn + 1));
  return html`<form class="card stack" onSubmit=${(event) => (event.preventDefault(), files.size && !looks && send.run())}>
    <div class=${`drop ${isOver ? "over" : ""}`} onDrop=${() => setIsOver(false)} onDragOver=${() => setIsOver(true)} onDragLeave=${() => setIsOver(false)}>
      <p><strong>Drop files or folders here</strong>, or choose them.</p>
      <div class="row" key=${turn}>
        <${Field} label="Files" type="file" multiple onChange=${picked} />
        <${Field} label="A whole folder" type="file" webkitdirectory onChange=${picked} />
      </div>
    </div>
    <p role="status">${said}</p>
    ${send.busy && sent !== null && html`<div class="progress"><${Bar} value=${sent / files.size} label="Upload" /><span class="quiet">${number(sent)} of ${plural(files.size, "file")} sent</span></div>`}
    <${Named} paths=${doubled}>Two files of one path were chosen. The later one counts:<//>
    <${Named} paths=${unread}>The browser cannot read these, and leaves them out:<//>
    <div class="columns">
      <${Field} label="Name" value=${name} onInput=${(event) => setName(event.target.value)} maxlength="200"
        help=${`Name of the new folder; empty: ${top || "uploads"}.`} />
      ${children}
    </div>
    <${Alert} error=${send.error} />
    ${refused.length > 0 && html`<${Refused} files=${refused} />`}
    ${toolId && html`<p><a href=${href("tools", toolId)}>Go on to the folder with the others</a></p>`}
    <div class="actions">
      <${Button} type="submit" class="primary" action=${send} busyText="Uploading …" disabled=${!files.size || looks > 0}>Upload and index<//>
      ${files.size > 0 && !send.busy && html`<${Button} onClick=${clear}>Choose others<//>`}
    </div>
  </form>`;
}

function Named({ paths, children }) {
  if (!paths.length) return null;
  return html`<div class="note"><p>${children}</p><ul>${paths.slice(0, NAMED).map((path) => html`<li key=${path} class="mono">${path}</li>`)}</ul><${More} list=${paths} /></div>`;
}

function Refused({ files }) {
  return html`<div class="alert" role="alert">
    <p>${plural(files.length, "file was", "files were")} not stored:</p>
    <ul>${files.slice(0, NAMED).map((each) => html`<li key=${each.file_path}><code>${each.file_path}</code>: ${refusalOf(each)}</li>`)}</ul>
    <${More} list=${files} />
  </div>`;
}

const More = ({ list }) => list.length > NAMED && html`<p>And ${number(list.length - NAMED)} more.</p>`;

const picked = (event) => choose([...event.target.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));

// The one folder in which all files are, which gives the new folder its name; "" without one.
export function topOf(paths) {
  const tops = new Set([...paths].map((path) => path.slice(0, Math.max(0, path.indexOf("/")))));
  return tops.size === 1 ? [...tops][0] : "";
}

function batchesOf(files) {
  const batches = [[]];
  let size = 0;
  for (const [path, file] of files) {
    if (batches.at(-1).length && (batches.at(-1).length === BATCH_FILES || size + file.size > BATCH_BYTES)) {
      batches.push([]);
      size = 0;
    }
    batches.at(-1).push([path, file]);
    size += file.size;
  }
  return batches;
}

const isReadable = (file) => file.slice(0, 1).arrayBuffer().then(() => true, () => false);
