// Calls of the public HTTP API. Every failure is a Problem, whose `detail` is a sentence with the remedy.
import { withQuery } from "./router.js";
import { away, key, lost, refused, session, suspect } from "./session.js";

export class Problem extends Error {
  constructor({ status = 0, code = "unknown", detail, errors = [] }) {
    super(detail);
    Object.assign(this, { status, code, detail, errors: errors ?? [] });
  }
}

// No answer at all: the frame says so for every view, and each loads again by itself.
export const isUnreachable = (error) => error?.code === "unreachable";

// Call the API and return its JSON. `query` and `body` are objects; `form` is a FormData instead of a body.
export async function call(method, path, { query, body, form, signal } = {}) {
  const sent = body === undefined ? form : JSON.stringify(body);
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await answer(withQuery(path, query), { method, body: sent, headers, signal });
  return response.status === 204 ? null : response.json();
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body = {}) => call("POST", path, { body });

// Parts of a path, each escaped: at("tools", "search", id) is "api/tools/search/…".
export const at = (...parts) => ["api", ...parts.map(encodeURIComponent)].join("/");
export const toolAt = (id, ...parts) => at("tools", "search", id, ...parts);

// The content of an answer as it is, such as a file to keep.
export const download = async (path) => (await answer(path, {})).blob();

// Follow server-sent events until the server ends them. Each `data` is passed on as JSON, with the name of the event.
// With a `body` they are the answer to a POST.
export async function follow(path, onData, signal, body) {
  const headers = { Accept: "text/event-stream", ...(body && { "Content-Type": "application/json" }) };
  const response = await answer(path, { method: body ? "POST" : "GET", body: JSON.stringify(body), headers, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    // the server says something every 10 s
    const { done, value } = await heard(reader.read(), 15_000, signal);
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      const data = lines.filter((line) => line.startsWith("data:"));
      const name = lines.find((line) => line.startsWith("event:"))?.slice(6).trim();
      if (data.length) onData(JSON.parse(data.map((line) => line.slice(5)).join("\n")), name);
    }
  }
}

async function answer(path, options) {
  const headers = { ...options.headers, ...(key.get() && { Authorization: `Bearer ${key.get()}` }) };
  if (session.get() && path.startsWith("api/places")) headers["Foldex-Session"] = session.get();
  const response = await heard(fetch(path, { ...options, headers }), 5_000, options.signal);
  away.set(false);
  if (response.ok) return response;
  const problem = new Problem(await problemOf(response));
  if (problem.status === 401) refused.set(true);
  throw problem;
}

async function problemOf(response) {
  const told = await response.json().catch(() => null);
  const detail = `The server answered ${response.status}; try again, or look into its log.`;
  return told?.detail ? told : { status: response.status, detail };
}

// Wait for an answer. It may take long, but then something answers.
async function heard(answer, ms, signal) {
  const silence = setInterval(suspect, ms);
  try {
    return await answer;
  } catch (error) {
    if (signal?.aborted) throw error;
    lost();
    throw new Problem({ code: "unreachable", detail: "Foldex did not answer; try again once it does." });
  } finally {
    clearInterval(silence);
  }
}
