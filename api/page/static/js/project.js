// Which project is shown. A key opens one; without keys, projects exist once they are named.
import { html } from "../vendor/preact-htm.js";
import { get } from "./api.js";
import { useData } from "./hooks.js";
import { Alert, Field, Select } from "./parts.js";
import { project } from "./session.js";
import { useStore } from "./store.js";

// The project of new tools if no other is known.
export const DEFAULT_PROJECT = "default";

// What the caller may see: { project_id, projects, scopes, flower_url }; null until it is known.
export function useAccess() {
  return useData((signal) => get("api/access", {}, signal), []).data ?? null;
}

// Whether the caller may change folders and their indexes. Until it is known, all is shown.
export const useMayWrite = () => mayWriteWith(useAccess());

export function mayWriteWith(access) {
  const scopes = access?.scopes;
  return !scopes || scopes.includes("write") || scopes.includes("admin");
}

// In place of a view that only changes something.
export const MayNotWrite = () => html`<${Alert} error=${{ code: "scope_missing" }} />`;

// The project in which a caller with this access makes something new; null until the access is known.
export function useOwnProject(access) {
  const chosen = useStore(project);
  return access && (access.project_id || chosen || access.projects[0] || DEFAULT_PROJECT);
}

// Chooses among several projects; nothing where there is no choice.
export function ProjectField() {
  const access = useAccess();
  const chosen = useStore(project);
  if (!access || access.projects.length < 2) return null;
  const options = [["", "All projects"], ...access.projects.map((each) => [each, each])];
  return html`<${Field} label="Project">
    ${(own) => html`<${Select} ...${own} options=${options} value=${chosen} onChange=${(event) => project.set(event.target.value)} />`}
  <//>`;
}
