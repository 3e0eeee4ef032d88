// Files of this computer that somebody chose, or dropped anywhere on the page, until they are stored.
import { store } from "./store.js";

const NONE = { files: new Map(), unread: [], doubled: [], looks: 0, isEmpty: false };

// What is chosen: the files by path; paths that cannot be read, and those of which two files were chosen; how many drops
// are still looked through; whether the last drop had no file.
export const chosen = store(NONE);

// Forget what is chosen. With `done`, a Map of stored files by path, all but those.
export function forget(done = null) {
  const left = [...chosen.get().files].filter(([path, file]) => done && done.get(path) !== file);
  chosen.set({ ...NONE, files: new Map(left), looks: chosen.get().looks });
}

// Choose [{ file, path }] too. Of two files of one path the later one counts.
export function choose(list, unread = []) {
  const old = chosen.get();
  const files = new Map(old.files);
  const doubled = new Set(old.doubled);
  for (const { file, path } of list) {
    const known = files.get(path);
    if (known && (known.size !== file.size || known.lastModified !== file.lastModified)) doubled.add(path);
    files.set(path, file);
  }
  chosen.set({ ...old, files, unread: [...old.unread, ...unread], doubled: [...doubled], isEmpty: !list.length && !unread.length });
}

// Take files that are dropped on the page, until the returned function is called: the browser would leave the page for
// one of them. `show` opens the view that stores them.
export function onDrops(show) {
  const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  const over = (event) => hasFiles(event) && event.preventDefault();
  const drop = (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show();
    look(event.dataTransfer);
  };
  addEventListener("dragover", over);
  addEventListener("drop", drop);
  return () => (removeEventListener("dragover", over), removeEventListener("drop", drop));
}

async function look(transfer) {
  // the items are gone after this turn
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = entries.length ? [] : [...transfer.files].map((file) => ({ file, path: file.name }));
  const count = (step) => chosen.set({ ...chosen.get(), looks: Math.max(0, chosen.get().looks + step) });
  const unread = [];
  count(1);
  for (const entry of entries) await collect(entry, "", files, unread);
  choose(files, unread);
  count(-1);
}

// Add all files of an entry to `files`, those in folders too, and paths that cannot be read to `unread`.
async function collect(entry, above, files, unread) {
  const path = above + entry.name;
  try {
    if (entry.isFile) return files.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path });
    const reader = entry.createReader();
    // a reader returns its entries in batches, the last of which is empty
    for (;;) {
      const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!batch.length) return;
      for (const each of batch) await collect(each, `${path}/`, files, unread);
    }
  } catch {
    unread.push(path);
  }
}
