// A form made of a model's JSON schema: each field has its name, its help and its bounds.
import { html, useEffect, useMemo, useState } from "../vendor/preact-htm.js";
import { get } from "./api.js";
import { words } from "./format.js";
import { useData } from "./hooks.js";
import { plain } from "./messages.js";
import { Field, Select } from "./parts.js";

// The schema of a model, such as ToolConfig: { schema, error }.
export function useSchema(model) {
  const { data, error } = useData((signal) => get("openapi.json", {}, signal), []);
  return { schema: data?.components.schemas[model], error };
}

// `value` is the config, `onChange` receives a changed copy. Parts with a model of their own have a view of their own.
// `errors` is that of a Problem: what concerns a field stands beside it. Further fields are `children`.
export function ConfigForm({ schema, value, onChange, errors = [], children }) {
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const errorOf = (name) => errors.find((each) => each.field.split(".").includes(name))?.message;
  return html`<div class="columns">
    ${fields.map(
      (field) => html`<${Control} key=${field.name} field=${field} value=${value[field.name]} error=${errorOf(field.name)}
        onChange=${(next) => onChange({ ...value, [field.name]: next })} />`,
    )}
    ${children}
  </div>`;
}

function fieldsOf(schema) {
  const rows = Object.entries(schema.properties).map(([name, described]) => {
    const kind = described.anyOf?.find((each) => each.type !== "null") ?? described;
    const isOptional = Boolean(described.anyOf);
    const placeholder = isOptional ? "default" : described.examples?.[0];
    const required = schema.required?.includes(name);
    return { name, ...kind, help: helpOf(described.description), isOptional, placeholder, required, default: described.default };
  });
  // objects, and lists of them, are set by the API
  return rows.filter((row) => (row.type || row.enum) && !row.const && row.type !== "object" && !row.items?.$ref);
}

// An empty control means null.
const helpOf = (text = "") => plain(text).replaceAll("null:", "empty:");
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function Control({ field, value, error, onChange }) {
  const shared = { label: capital(words(field.name)), help: field.help, error };
  const typed = (event) => onChange(event.target.value);
  if (field.type === "boolean") {
    return html`<${Field} ...${shared} class="check" type="checkbox" checked=${value ?? field.default ?? false}
      onChange=${(event) => onChange(event.target.checked)} />`;
  }
  if (field.type === "array" && field.items.enum) return html`<${Kinds} ...${shared} names=${field.items.enum} value=${value ?? []} onChange=${onChange} />`;
  if (field.type === "array") {
    return html`<${Field} ...${shared} help=${`${shared.help} One a line.`}>
      ${(own) => html`<${TextLines} own=${own} value=${value ?? []} onChange=${onChange} />`}
    <//>`;
  }
  if (field.enum) {
    const options = [...(field.isOptional ? [["", "default"]] : []), ...field.enum];
    return html`<${Field} ...${shared}>${(own) => html`<${Select} ...${own} options=${options} value=${value ?? field.default ?? ""} onChange=${typed} />`}<//>`;
  }
  if (field.type === "integer" || field.type === "number") {
    // durations such as 15m are sent as they are, and the service says what is wrong with a number
    const changed = (event) => onChange(numberOf(event.target.value.trim(), field.isOptional ? null : field.default));
    return html`<${Field} ...${shared} inputmode="numeric" value=${value ?? field.default ?? ""} placeholder="default" required=${field.required} onInput=${changed} />`;
  }
  return html`<${Field} ...${shared} value=${value ?? ""} placeholder=${field.placeholder} spellcheck=${false}
    required=${field.required} minlength=${field.minLength} maxlength=${field.maxLength}
    onInput=${(event) => onChange(event.target.value || null)} />`;
}

// Several texts, one a line. What is typed stays while the rest of the page changes.
function TextLines({ own, value, onChange }) {
  const given = value.join("\n");
  const [text, setText] = useState(given);
  useEffect(() => setText(given), [given]);
  const change = () => onChange(text.split("\n").map((line) => line.trim()).filter(Boolean));
  return html`<textarea ...${own} rows="2" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)} onChange=${change}></textarea>`;
}

function numberOf(text, empty) {
  if (text === "") return empty;
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

// Several of a few names.
function Kinds({ label, help, names, value, onChange }) {
  const toggled = (name) => (value.includes(name) ? value.filter((each) => each !== name) : [...value, name]);
  return html`<fieldset class="kinds">
    <legend>${label}</legend>
    ${names.map(
      (name) => html`<label key=${name}><input type="checkbox" checked=${value.includes(name)} onChange=${() => onChange(toggled(name))} /> ${name}</label>`,
    )}
    <p class="help">${help}</p>
  </fieldset>`;
}
