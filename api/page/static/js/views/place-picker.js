// A field for a folder of the service's machine, and below it the folders to choose from: those that are permitted, then
// those in the one that is named. `value` is the path, `onChange` gets another one.
import { html, useEffect, useRef, useState } from "../../vendor/preact-htm.js";
import { get } from "../api.js";
import { useData } from "../hooks.js";
import { Button, Field } from "../parts.js";

const PAUSE_MS = 150;
const SHOWN = 60;

// A value that has stayed the same for a moment.
export function useSettled(value, ms) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

export function PlacePicker({ value, onChange, error }) {
  const picker = useRef(null);
  // the button that was pressed goes, and typing goes on in the field
  const choose = (path) => {
    const input = picker.current.querySelector("input");
    onChange(`${path === "/" ? "" : path}/`);
    input.focus();
    requestAnimationFrame(() => input.setSelectionRange(input.value.length, input.value.length));
  };
  const folder = useSettled(value.slice(0, value.lastIndexOf("/") + 1), PAUSE_MS);
  const { data: roots } = useData((signal) => get("api/places", {}, signal), []);
  const isInside = roots?.items.some(({ path }) => below(folder, path));
  const { data: inside } = useData(
    (signal) => (isInside ? get("api/places", { path: folder, limit: 1000 }, signal).catch(() => null) : Promise.resolve(null)),
    [folder, isInside],
  );
  const listed = isInside && inside ? inside : roots;
  const begun = listed === inside ? value.slice(folder.length).toLowerCase() : "";
  const found = (listed?.items ?? []).filter(({ name }) => name.toLowerCase().startsWith(begun));
  const above = roots?.items.some(({ path }) => below(folder, path) && trimmed(folder) !== path) && parent(folder);
  return html`<div class="picker" ref=${picker}>
    <${Field} label="Folder" value=${value} error=${error} spellcheck=${false} autocomplete="off" required maxlength="4096"
      placeholder="/home/me/notes" help=${`A folder of the machine on which Foldex runs. Type its path${found.length ? ", or choose it below" : ""}.`}
      onInput=${(event) => onChange(event.target.value)} />
    ${listed && (found.length > 0 || isInside) && html`<section aria-label="Folders to choose from">
      <p class="quiet">${isInside && inside ? html`In <span class="mono">${trimmed(folder)}</span>` : "Folders that Foldex may read"}
        ${above && html` <${Button} class="small" onClick=${() => choose(above)}>Up<//>`}</p>
      <ul class="places">
        ${found.slice(0, SHOWN).map(({ path, name }) => html`<li key=${path}><${Button} class="small" title=${path}
          onClick=${() => choose(path)}>${isInside && inside ? name : path}<//></li>`)}
      </ul>
      ${found.length > SHOWN && html`<p class="quiet">${found.length - SHOWN} more: type the first letters.</p>`}
      ${!found.length && html`<p class="quiet">No folder in it has such a name.</p>`}
    </section>`}
  </div>`;
}

const trimmed = (path) => path.replace(/\/+$/, "") || "/";
const parent = (path) => trimmed(path).slice(0, trimmed(path).lastIndexOf("/"));
const below = (path, folder) => trimmed(path) === folder || path.startsWith(`${folder.replace(/\/$/, "")}/`);
