"""The order in which transactions lock what others may hold, from the broadest lock to the narrowest.

    project (advisory) → tools → indexes → changes → leases → tasks → files → chunks

- **No transaction waits for long while others wait for it.** Whoever holds a project, the trees or an index waits at
  most a second for each narrower lock (`hurry` in `fragments.sql`). If it does not get the lock, it ends, and holds
  nothing. The API tries it again for some seconds (`again_if_locked`), and then answers `locked`. A worker passes over
  the task (`messages.pass_over`).
- **The sweep waits for no row.** It skips locked rows (SKIP LOCKED), or handles what may be locked one by one.
- Notes that may get lost, such as a warning or the time of a message, skip a locked row.
- A cancel shuts out the workers first, under the lock of the index alone. Then it ends the task.

Transactions that hold the project's lock exclude each other, so their own order matters less. The following do not hold
it, and all others keep the order towards them:

- `changes.schedule`: tools, then changes. It skips locked ones.
- The watch process notes the changes of one index at a time, and starts runs as the sweep does.
- Listing: index and task when it begins, then its task and files. It waits for no chunks.
- Indexing: `claim`, `finish` and the drafts of chunks hold the index (FOR SHARE), then files. `claim` skips locked
  files. `finish` holds chunks last.
- Changes of keys hold the advisory lock of their project's keys alone. A deletion of the project takes it after the
  project's, and holds both.
- Lease renewals and the sweep's `return_expired` skip locked leases, files and chunks.

Several indexes or changes are locked by ascending id. Rows that refer to an index lock it against its deletion only
(FOR KEY SHARE), which conflicts with nothing that Foldex does.
"""

from __future__ import annotations

#: Tables by the place of their rows in the order.
ORDER: tuple[frozenset[str], ...] = (
    frozenset({"search_tool"}),
    frozenset({"search_index"}),
    frozenset({"search_index_change"}),
    frozenset({"file_lease"}),
    frozenset({"search_index_task", "search_index_task_delta"}),
    frozenset({"search_index_file"}),
    frozenset({"chunk", "chunk_draft", "chunk_tombstone", "symbol", "symbol_use"}),
)
