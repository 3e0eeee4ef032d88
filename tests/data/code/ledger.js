import { readFile } from "node:fs";
import Store, { open as openStore } from "./store.js";

const LIMIT = 1000;

/** A ledger of entries. */
export class Ledger extends Store {
  #entries = [];

  constructor(name) {
    super(name);
  }

  add(amount, note = "") {
    const clamp = (value) => Math.min(value, LIMIT);
    this.#entries.push(new Entry(clamp(amount), note));
  }

  onChange = (listener) => listener(this);
}

function* numbers(limit) {
  yield limit;
}

export const total = async (ledger) => {
  return ledger.entries.reduce((sum, entry) => sum + entry.amount, 0);
};

Ledger.prototype.dump = function () {
  return JSON.stringify(this);
};

export default function load(path) {
  return readFile(path, () => openStore(path));
}
