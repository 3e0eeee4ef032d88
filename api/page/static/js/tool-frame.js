// The frame of a tool's views: its name, its state, and the way from one view to another.
import { html, useEffect, useLayoutEffect, useRef } from "../vendor/preact-htm.js";
import { get, toolAt } from "./api.js";
import { useData, useStatus } from "./hooks.js";
import { placeOf } from "./messages.js";
import { Alert, Heading, Loading, Safe, State } from "./parts.js";
import { MayNotWrite, useMayWrite } from "./project.js";
import { href } from "./router.js";
import { Files } from "./views/files.js";
import { FileText } from "./views/file-text.js";
import { Grep } from "./views/grep.js";
import { FolderMap } from "./views/map.js";
import { Overview } from "./views/overview.js";
import { Search } from "./views/search.js";
import { Settings } from "./views/settings.js";
import { Symbols } from "./views/symbols.js";
import { Tree } from "./views/tree.js";

const VIEWS = {
  "": ["Overview", Overview],
  search: ["Search", Search],
  files: ["Files", Files],
  map: ["Map", FolderMap],
  symbols: ["Symbols", Symbols],
  grep: ["Grep", Grep],
  tree: ["Tree", Tree],
  settings: ["Settings", Settings],
};

export function ToolFrame({ toolId, view, route }) {
  const { data: tool, error, reload } = useData((signal) => get(toolAt(toolId), {}, signal), [toolId]);
  const live = useStatus(toolId);
  const mayWrite = useMayWrite();
  // a run that begins or ends may change the tool, as when a changed index takes over
  useEffect(reload, [live.status?.task_id, live.status?.status]);
  const gone = [error, live.error].find((each) => each?.status === 404);
  if (gone) return html`<${Gone} error=${gone} />`;
  if (!tool) return error ? html`<${Heading} title="Folder" /><${Alert} error=${error} />` : html`<${Loading} />`;
  const [title, View] = viewOf(view, route, mayWrite);
  const shared = { tool, toolId, mayWrite, route, status: live.status, reload, again: live.again };
  return html`<${Heading} title=${tool.name}><${State} value=${live.status?.status ?? tool.task} /><//>
    <p class="place">${placeOf(tool)}</p>
    <nav class="tabs" aria-label="Views of this folder">
      ${Object.entries(VIEWS).filter(([name]) => mayWrite || name !== "settings").map(
        ([name, [text]]) => html`<a key=${name} href=${name ? href("tools", toolId, name) : href("tools", toolId)}
          aria-current=${name === view ? "page" : undefined}>${text}</a>`,
      )}
    </nav>
    <${Alert} error=${error ?? live.error} />
    <${Section} title=${title} path=${route.path}><${View} ...${shared} /><//>`;
}

// The place of a view. It is focused when another view comes into it.
function Section({ title, path, children }) {
  const section = useRef(null);
  const before = useRef(path);
  useLayoutEffect(() => {
    if (before.current !== path) section.current.focus();
    before.current = path;
  }, [path]);
  return html`<section class="view" ref=${section} tabindex="-1" aria-label=${title}>
    <${Safe} key=${path}>${children}<//>
  </section>`;
}

// A route below files names one file: #/tools/{id}/files/{file_id}.
function viewOf(name, route, mayWrite) {
  if (name === "files" && route.parts[3]) return ["File", FileText];
  if (name === "settings" && !mayWrite) return ["Settings", MayNotWrite];
  return VIEWS[name] ?? ["No such view", NoView];
}

const NoView = ({ toolId }) => html`<p>This address names no view. Go to <a href=${href("tools", toolId)}>the overview</a>.</p>`;

function Gone({ error }) {
  return html`<${Heading} title="This folder is gone" />
    <${Alert} error=${error} />
    <p data-gone>It may have been deleted meanwhile. Go to <a href="#/">the folders</a>.</p>`;
}
