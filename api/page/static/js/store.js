// Values that several parts of the page read, each with its listeners.
import { useEffect, useState } from "../vendor/preact-htm.js";

export function store(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore(from) {
  const [value, setValue] = useState(from.get());
  useEffect(() => {
    setValue(from.get());
    return from.listen(setValue);
  }, [from]);
  return value;
}
