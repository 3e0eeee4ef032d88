"""Turns a source's listing into rows of work: new, changed, moved and vanished files."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import NamedTuple

from schemas.content.document import ListingPage, SourceEntry
from schemas.content.stated import is_sidecar
from worker.formats.by_name import has_type, with_stated_type
from worker.formats.listed import reason_of
from worker.formats.versions import version
from worker.ignore import Rules
from worker.index.lease import Lease
from worker.index.unmatched import MatchedPatterns, NotingRules
from worker.sources import Source
from worker.state.index import listings, tasks
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.tokens import keywords

REMOVALS_HELD = (
    "More than half of the indexed files have vanished from the source; they stay searchable. If this is intended, "
    'reindex with {"allow_removals": true}.'
)


@dataclass(frozen=True, slots=True)
class ListingRun:
    """Everything one slice of planning works with."""

    plan: tasks.ListingLease
    index: Index
    source: Source
    pool: Pool
    lease: Lease
    matched: MatchedPatterns
    #: The only keys that are listed, with all below them; None for the whole folder.
    keys: Sequence[bytes] | None


def open_listing(
    plan: tasks.ListingLease, index: Index, opened: Callable[[Rules], Source], pool: Pool, lease: Lease
) -> ListingRun:
    """Return a slice of planning over the source that is `opened` with rules."""
    matched = MatchedPatterns(index, () if plan.list_cursor is None else plan.matched or ())
    source = opened(NotingRules(index.settings, matched))
    keys = None if plan.paths is None else source.narrow([path.encode() for path in plan.paths])
    return ListingRun(plan, index, source, pool, lease, matched, keys)


class _Read(NamedTuple):
    """A page of the source, its entries of a wanted type as rows, and the config entries that it newly matched."""

    page: ListingPage
    kept: Sequence[listings.ListedEntry]
    matched: Sequence[str]


class RecordedPage(NamedTuple):
    """A page whose entries are now rows, and whether it is the first or the last page of its folder."""

    first: bool
    last: bool


def list_pages(listing: ListingRun, until: float = math.inf) -> Iterator[RecordedPage]:
    """Record the pages of the folder, starting at the plan's cursor, and yield after each.

    Stops at the end of the folder, or once `time.monotonic` passes `until` and every page already read is recorded.

    Raises `SourceError`, or `LeaseLost` if another worker took over.
    """
    listing.source.check()
    is_first = listing.plan.list_cursor is None
    for read in _pages(listing, until):
        listing.lease.check()
        _record(listing, read, first=is_first)
        is_last = read.page.cursor is None
        if is_last:
            _end(listing)
        yield RecordedPage(first=is_first, last=is_last)
        is_first = False


def _pages(listing: ListingRun, until: float) -> Iterator[_Read]:
    """Read the pages, starting at the plan's cursor. A thread reads the next page while the caller works on one."""
    read = _read(listing, listing.plan.list_cursor)
    if read.page.cursor is None:
        yield read
        return
    with ThreadPoolExecutor(1, thread_name_prefix="foldex-listing") as reader:
        while read.page.cursor is not None:
            if time.monotonic() > until:
                break
            following = reader.submit(copy_context().run, _read, listing, read.page.cursor)
            yield read
            read = following.result()
        yield read


def _read(listing: ListingRun, cursor: str | None) -> _Read:
    page = listing.source.list(cursor)
    types = listing.index.types
    with_sidecars = listing.index.settings.sidecars
    kept = [
        _listed(listing.index, entry)
        for entry in page.entries
        if has_type(types, entry.path, entry.type) or (with_sidecars and is_sidecar(entry.path))
    ]
    listing.matched.note_types(page.entries)
    return _Read(page, kept, listing.matched.take_new())


def _record(listing: ListingRun, read: _Read, *, first: bool) -> None:
    page = read.page
    others = Counter(types=len(page.entries) - len(read.kept))
    listings.record_page(
        listing.pool,
        task_id=listing.plan.id,
        index_id=listing.index.id,
        owner=listing.lease.owner,
        listed=read.kept,
        cursor=page.cursor,
        unlisted=page.unlisted,
        ignored=+(others + Counter(page.ignored)),
        matched=read.matched,
        first=first,
        spans=page.spans,
        keys=listing.keys,
    )


def _listed(index: Index, entry: SourceEntry) -> listings.ListedEntry:
    name = with_stated_type(entry.path, entry.type)
    code_version = f"{version(name)} {keywords.VERSION}"
    return listings.ListedEntry(entry, code_version, reason_of(entry, index.settings))


def _end(listing: ListingRun) -> None:
    warnings = [listing.matched.warning(), _no_file(listing)]
    listing_warning = " ".join(filter(None, warnings)) or None
    # Foldex owns the content tree, so an entry that it reports as gone is gone
    hold = not listing.index.source.removals_are_certain and not listing.plan.allow_removals
    listings.end_listing(
        listing.pool,
        task_id=listing.plan.id,
        index_id=listing.index.id,
        owner=listing.lease.owner,
        hold=hold,
        left_out=_count_left_out(listing) if hold else 0,
        warning=REMOVALS_HELD,
        listing_warning=listing_warning,
        keys=listing.keys,
    )


def _no_file(listing: ListingRun) -> str | None:
    """Return a sentence that explains why the folder yields no file; None if it yields some or is simply empty."""
    ignored = listings.ignored_if_empty(listing.pool, listing.plan.id) if listing.keys is None else None
    if ignored is None:
        return None
    if not ignored:
        return listing.source.near()
    counted = ", ".join(f"{rule}: {number}" for rule, number in sorted(ignored.items()))
    return f"Every file was left out ({counted}); change the tool's config, or the ignore files."


def _count_left_out(listing: ListingRun) -> int:
    """Count the vanished live files that a rule left out, if the count can affect the decision; otherwise 0."""
    task_id = listing.plan.id
    if not listings.too_many_vanished(listing.pool, task_id=task_id, index_id=listing.index.id):
        return 0
    vanished = listings.read_vanished(listing.pool, task_id=task_id)
    left_out = sum(listing.source.leaves_out(key) for key in vanished)
    listing.lease.check()
    return left_out
