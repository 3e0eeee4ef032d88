"""Turns a source's listing into rows of work: what is new, changed, moved or gone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from schemas.document import Entry, Page
from schemas.status import Reason
from worker import parse
from worker.formats.by_name import is_of
from worker.index.lease import Lease
from worker.sources import Source
from worker.state.index import files, tasks
from worker.state.index.tools import Index
from worker.state.postgres import Pool
from worker.tokens import keywords

HELD = (
    "More than half of the files have vanished from the source; they stay searchable. If they are really gone, "
    'reindex with {"allow_removals": true}.'
)


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything one slice of planning works with."""

    plan: tasks.Plan
    index: Index
    source: Source
    pool: Pool
    lease: Lease


def list_folder(listing: Listing, *, seconds: float, started: Callable[[], None]) -> bool:
    """Record pages until the source has no more or the time is up. Returns True once everything is listed.

    Calls `started` after it records the first of several pages, because indexing need not wait for the last. Raises
    `SourceError`, or `LeaseLost` if another worker took over.
    """
    deadline = time.monotonic() + seconds
    cursor = listing.plan.list_cursor
    listing.source.check()
    while True:
        page = listing.source.list(cursor)
        listing.lease.check()
        _record(listing, page, first=cursor is None)
        if page.cursor is None:
            _end(listing)
            return True
        if cursor is None:
            started()
        cursor = page.cursor
        if time.monotonic() > deadline:
            return False


def parsed_name(path: str, type_: str | None) -> str:
    """The name that decides how a file is parsed: its own, or with the extension of the type its source reports."""
    name = path.rsplit("/", 1)[-1]
    extension = {"json": ".json", "markdown": ".md"}.get(type_ or "", "")
    return name if name.lower().endswith(extension) else name + extension


def _record(listing: Listing, page: Page, *, first: bool) -> None:
    types = listing.index.types
    kept = [entry for entry in page.entries if is_of(types, entry.path, entry.type)]
    others = Counter(types=len(page.entries) - len(kept))
    files.record_page(
        listing.pool,
        task_id=listing.plan.id,
        index_id=listing.index.id,
        owner=listing.lease.owner,
        listed=[_listed(listing.index, entry) for entry in kept],
        cursor=page.cursor,
        unlisted=page.unlisted,
        ignored=+(others + Counter(page.ignored)),
        first=first,
    )


def _listed(index: Index, entry: Entry) -> files.Listed:
    name = parsed_name(entry.path, entry.type)
    refused = None if "binaries" in index.settings.keep else parse.refusal(name)
    reason = entry.reason or (refused.reason if refused else None)
    if reason is None and entry.size > index.settings.max_file_bytes:
        reason = Reason.TOO_LARGE
    code_version = f"{parse.version(name)} {keywords.VERSION}"
    return files.Listed(files.file_id(index.id, entry.key), entry, code_version, reason)


def _end(listing: Listing) -> None:
    # Foldex owns the content tree, so what it reports as gone is gone
    hold = listing.index.source["kind"] != "nodes" and not listing.plan.allow_removals
    files.end_listing(
        listing.pool,
        task_id=listing.plan.id,
        index_id=listing.index.id,
        owner=listing.lease.owner,
        hold=hold,
        left_out=_left_out(listing) if hold else 0,
        warning=HELD,
    )


def _left_out(listing: Listing) -> int:
    """Count the vanished files that a rule left out, if the count can affect the decision; otherwise 0."""
    task = {"task_id": listing.plan.id, "index_id": listing.index.id}
    if not files.too_many_vanished(listing.pool, **task):
        return 0
    left_out = sum(listing.source.leaves_out(key) for key in files.vanished(listing.pool, **task))
    listing.lease.check()
    return left_out
