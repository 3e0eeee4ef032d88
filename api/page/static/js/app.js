// The frame of every view: header, key, banner, keys, and the view that the route names.
import { html, useEffect, useState } from "../vendor/preact-htm.js";
import { onDrops } from "./dropped.js";
import { Keys, onShortcuts } from "./keyboard.js";
import { KeyForm } from "./key-form.js";
import { Alert, Button, Heading, Safe } from "./parts.js";
import { currentRoute, go, href, useRoute } from "./router.js";
import { away, key, changeKey, linkFault, refused } from "./session.js";
import { useStore } from "./store.js";
import { ToolFrame } from "./tool-frame.js";
import { Home } from "./views/home.js";
import { NewTool } from "./views/new-tool.js";
import { Workers } from "./views/workers.js";

const PAGES = { "": Home, new: NewTool, workers: Workers };

export function App() {
  const route = useRoute();
  const isRefused = useStore(refused);
  const fault = useStore(linkFault);
  const [showsKeys, setShowsKeys] = useState(false);
  useEffect(() => onShortcuts(() => setShowsKeys(true)), []);
  useEffect(() => onDrops(() => currentRoute().query.from !== "files" && go(href("new", { from: "files" }))), []);
  return html`<${Header} path=${route.path} onKeys=${() => setShowsKeys(true)} />
    <${Away} />
    <main id="main" tabindex="-1">
      <${Alert} error=${fault} />
      ${isRefused ? html`<${KeyForm} />` : html`<${Safe} key=${route.parts.slice(0, 2).join("/")}><${View} route=${route} /><//>`}
    </main>
    ${showsKeys && html`<${Keys} onClose=${() => setShowsKeys(false)} />`}`;
}

function View({ route }) {
  const [first, id, view = ""] = route.parts;
  if (first === "tools" && id) return html`<${ToolFrame} key=${id} toolId=${id} view=${view} route=${route} />`;
  const Page = PAGES[route.path];
  if (Page) return html`<${Page} route=${route} />`;
  return html`<${Heading} title="No such view" />
    <p>This address names no view. Go to <a href="#/">the folders</a>.</p>`;
}

function Header({ path, onKeys }) {
  const hasKey = useStore(key);
  const link = (to, text, isHere) => html`<a href=${to} aria-current=${isHere ? "page" : undefined}>${text}</a>`;
  return html`<header class="top">
    <a class="brand" href="#/">Foldex</a>
    <nav aria-label="Main">
      ${link("#/", "Folders", path === "" || path.startsWith("tools"))}
      ${link(href("workers"), "Workers", path === "workers")}
      <a href="docs">API</a>
    </nav>
    <div class="top-end">
      ${hasKey && html`<${Button} class="plain" onClick=${() => (changeKey(""), refused.set(true))}>Forget the key<//>`}
      <${Button} class="plain" onClick=${onKeys} title="Keys (?)" aria-label="Show the keys">?<//>
      <${ThemeSwitch} />
    </div>
  </header>`;
}

const NEXT = { system: "light", light: "dark", dark: "system" };

function ThemeSwitch() {
  const [theme, setTheme] = useState(localStorage.getItem("foldex.theme") ?? "system");
  function change() {
    const next = NEXT[theme];
    if (next === "system") {
      localStorage.removeItem("foldex.theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("foldex.theme", next);
      document.documentElement.dataset.theme = next;
    }
    setTheme(next);
  }
  return html`<${Button} class="plain" onClick=${change} aria-label=${`Theme: ${theme}. Change it`}>
    <span aria-hidden="true">◐</span> <span class="theme-word">Theme: ${theme}</span>
  <//>`;
}

// One sentence while the service is away. It is always there, so that screen readers announce its change.
function Away() {
  const isAway = useStore(away);
  return html`<div role="status" class="away" hidden=${!isAway}>
    ${isAway && "Foldex does not answer. The page tries again; start it with “foldex up” if it is stopped."}
  </div>`;
}
