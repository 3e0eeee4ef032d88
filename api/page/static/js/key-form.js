// Asks for the API key, which stays in this tab's session storage only.
import { html, useState } from "../vendor/preact-htm.js";
import { Problem, get } from "./api.js";
import { useAction } from "./hooks.js";
import { Alert, Button, Field, Heading } from "./parts.js";
import { changeKey, key } from "./session.js";

export function KeyForm() {
  const [text, setText] = useState("");
  // after a wrong key the service's own sentence is shown
  const [wasSent, setWasSent] = useState(Boolean(key.get()));
  const check = useAction(async (value) => {
    if (!HEADER_TEXT.test(value)) throw new Problem({ detail: REFUSED });
    key.set(value);
    await get("api/tools/search", { limit: 1 });
    changeKey(value);
  });
  function submit(event) {
    event.preventDefault();
    setWasSent(true);
    if (text.trim()) check.run(text.trim());
  }
  const error = check.error ?? (wasSent && !check.busy ? { detail: REFUSED } : null);
  return html`<${Heading} title="Key" />
    <form class="card narrow" onSubmit=${submit}>
      <p>This service asks for a key. <code>foldex keys create PROJECT</code> makes one; it is shown once.</p>
      <${Field} label="API key" type="password" autocomplete="off" value=${text} spellcheck=${false}
        onInput=${(event) => setText(event.target.value)}
        help="It stays in this tab and is gone when you close it." />
      <${Alert} error=${error} />
      <div class="actions"><${Button} type="submit" class="primary" action=${check}>Use this key<//></div>
    </form>`;
}

// A browser sends no other characters in a header; it would fail as if the service did not answer.
const HEADER_TEXT = /^[\x21-\x7e]+$/;
const REFUSED = "The key is missing or invalid; enter one from `foldex keys create`.";
