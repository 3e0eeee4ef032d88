// Routes are in the fragment of the address: #/tools/{id}/search?q=words. Links and reloads keep them.
import { store, useStore } from "./store.js";

// Encode a route: href("tools", id, "search") or href("tools", id, "search", { q: "words" }).
export function href(...parts) {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : {};
  return withQuery(`#/${parts.map(encodeURIComponent).join("/")}`, query);
}

// An address with the values that are given.
export function withQuery(path, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(set).toString();
  return text ? `${path}?${text}` : path;
}

// Go to a route. With `replace` the present one leaves no trace in the history, as while typing.
export function go(to, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  route.set(parsed());
}

function parsed() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, path: parts.join("/"), query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const route = store(parsed());
addEventListener("hashchange", () => route.set(parsed()));
addEventListener("popstate", () => route.set(parsed()));

// Read the address again, after something else changed it.
export const refreshRoute = () => route.set(parsed());

// { parts, path, query }: the route that is shown.
export const useRoute = () => useStore(route);
export const currentRoute = () => route.get();
