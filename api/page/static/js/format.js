// Values as people read them.
const numbers = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const times = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const days = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const number = (value) => (value === null || value === undefined ? "–" : numbers.format(value));
export const compact = (value) => (value === null || value === undefined ? "–" : short.format(value));
export const percent = (share) => `${Math.floor(share * 100)} %`;
export const clock = (text) => times.format(new Date(text));
export const time = (text) => (text ? days.format(new Date(text)) : "–");
export const plural = (count, one, many = `${one}s`, written = number) => `${written(count)} ${count === 1 ? one : many}`;

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) (value /= 1000), (unit += 1);
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min${Math.round(seconds % 60) ? ` ${Math.round(seconds % 60)} s` : ""}`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function dollars(value) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "free";
  return value < 0.01 ? "under $0.01" : `$${value.toFixed(2)}`;
}

// How long ago a time was.
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
export function ago(text) {
  if (!text) return "";
  const seconds = (new Date(text) - Date.now()) / 1000;
  for (const [unit, size] of [["day", 86_400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return "just now";
}

// Words such as held_removals as people write them.
export const words = (name) => name.replaceAll("_", " ");
