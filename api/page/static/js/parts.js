// What views are made of.
import { h, html, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.js";
import { isUnreachable } from "./api.js";
import { useAction } from "./hooks.js";
import { sentenceOf } from "./messages.js";

let views = 0;

// A view's heading. It is focused when the view appears, unless it is the first one, and names the document.
export function Heading({ title, children }) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${title} – Foldex`;
  }, [title]);
  // in the same turn, so that no key is lost between
  useLayoutEffect(() => {
    views += 1;
    if (views > 1) heading.current?.focus();
  }, []);
  return html`<div class="heading"><h1 ref=${heading} tabindex="-1">${title}</h1>${children}</div>`;
}

// Characters that turn the direction of all text after them. A file's name may have them.
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;

// The sentence of a Problem, near what caused it, unless the frame says it already. The element is always there, though
// hidden without an error: Preact may misplace what follows a component that vanishes.
export function Alert({ error: problem, children }) {
  const error = isUnreachable(problem) ? null : problem;
  const said = error && sentenceOf(error).replace(TURNS, "");
  return html`<div class="alert" role="alert" hidden=${!error}>${error && html`<p>${said}</p>${children}`}</div>`;
}

// A fault of a view is said in its place, so that the rest of the page still works.
export function Safe({ children }) {
  const [error, again] = useErrorBoundary();
  if (!error) return children;
  console.error(error);
  return html`<${Alert} error=${{ detail: `This view failed (${error.message}); try again, or reload the page.` }}>
    <${Button} onClick=${again}>Try again<//>
  <//>`;
}

// What stands where there is nothing yet.
export function Empty({ title, children }) {
  return html`<section class="empty"><h2>${title}</h2>${children}</section>`;
}

export const Loading = () => html`<p class="quiet" role="status">Loading …</p>`;

// A labelled control: <Field label="Name" help="…">${(id, helpId) => html`<input id=${id} …/>`}</Field>, or with
// plain attributes an input.
let fields = 0;
export function Field({ label, help, error, class: kind = "", children, ...attributes }) {
  const [id] = useState(() => `field-${(fields += 1)}`);
  const described = [help && `${id}-help`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  const own = { id, "aria-describedby": described, "aria-invalid": error ? "true" : undefined };
  const control = typeof children === "function" ? children(own) : h("input", { type: "text", ...attributes, ...own });
  return html`<div class=${`field ${kind}`}>
    <label for=${id}>${label}</label>
    ${control}
    ${help && html`<p class="help" id=${`${id}-help`}>${help}</p>`}
    ${error && html`<p class="field-error" id=${`${id}-error`} role="alert">${error}</p>`}
  </div>`;
}

export function Select({ options, ...attributes }) {
  const rows = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  return html`<select ...${attributes}>
    ${rows.map(([value, text]) => html`<option value=${value} selected=${value === attributes.value}>${text}</option>`)}
  </select>`;
}

// A button that runs `action` of useAction, or `onClick`, and does nothing while the action runs. The second press of a
// double one does nothing either: the button may have taken the place of the one that was meant.
export function Button({ action, onClick, busyText, children, class: kind = "", ...attributes }) {
  const busy = Boolean(action?.busy);
  const press = (event) => {
    if (busy || (action && event.detail > 1)) event.preventDefault();
    else if (onClick) onClick(event);
    else if (attributes.type !== "submit") action.run();
  };
  return html`<button type="button" class=${kind} onClick=${press} ...${attributes} aria-disabled=${busy || undefined}>
    ${busy && busyText ? busyText : children}
  </button>`;
}

// Buttons of which some come and go. If the one with the focus goes, the first of the others has it.
export function Actions({ children }) {
  const row = useRef(null);
  const hadFocus = row.current?.contains(document.activeElement);
  useLayoutEffect(() => {
    if (hadFocus && document.activeElement === document.body) row.current.querySelector("a, button")?.focus();
  });
  return html`<div class="actions" ref=${row}>${children}</div>`;
}

// A dialog in front of the page. Escape and a press beside it close it, and the focus goes back.
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(null);
  // in the same turn, so that a key pressed at once is the dialog's
  useLayoutEffect(() => {
    const element = dialog.current;
    element.showModal();
    // this gives the focus back; without it the page behind stays out of reach until the element is gone
    return () => element.close();
  }, []);
  const beside = (event) => event.target === dialog.current && onClose();
  return html`<dialog ref=${dialog} aria-label=${title} onCancel=${(event) => (event.preventDefault(), onClose())}
    onClick=${beside}>
    <div class="dialog"><h2>${title}</h2>${children}</div>
  </dialog>`;
}

// A dialog that asks before something is lost. `act` does it; `onDone` follows.
export function Confirm({ title, text, verb, act, onDone, onClose }) {
  const action = useAction(act);
  const confirm = async () => {
    if ((await action.run()) !== undefined) onDone();
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p>${text}</p>
    <${Alert} error=${action.error} />
    <div class="actions">
      <${Button} onClick=${onClose} autofocus>Keep it<//>
      <${Button} class="danger" action=${action} onClick=${confirm} busyText="One moment …">${verb}<//>
    </div>
  <//>`;
}

// The state of a task or a file as a word with a mark.
export const State = ({ value }) => html`<span class=${`state state-${value}`}>${value}</span>`;

export function Bar({ value, label }) {
  return html`<progress max="1" value=${value} aria-label=${label}></progress>`;
}

// Text to be pasted elsewhere.
export function Copy({ text, children, ...attributes }) {
  const action = useAction(() => navigator.clipboard.writeText(text).then(() => setDone(true)));
  const [isDone, setDone] = useState(false);
  return html`<${Button} class="plain" action=${action} ...${attributes}>${isDone ? "Copied" : children}<//>`;
}

// A command for a terminal.
export const Command = ({ text }) => html`<p class="command"><code>${text}</code> <${Copy} text=${text}>Copy<//></p>`;

// Pairs of a name and a value.
export function Facts({ rows }) {
  const shown = rows.filter((row) => row && row[1] !== undefined && row[1] !== null);
  return html`<dl class="facts">
    ${shown.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}
