"""Warns of what a tool's config says of metadata in vain: types that values do not have, rules that match no file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from threading import Lock, Thread
from uuid import UUID

import structlog

from api.http.lookup_cache import LookupCache
from api.search.text.metadata_filter import AT_REST_SECONDS, keys_of, takes_of
from api.search.text.path_pattern import PathPattern, Takes
from schemas.queries.metadata import MetadataRule, MetadataView
from schemas.wording import list_first
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import MetadataState
from worker.tokens.normal_forms import normalized

#: Seconds for which a status waits for a count of values. A longer one is shown in a later status.
COUNT_SECONDS = 0.2
#: Indexes of which a process counts values at a time, each with a connection to Postgres.
MAX_COUNTS = 2
#: Pause after a long count of an index, as a multiple of its time, and the longest one in seconds.
PAUSE_SHARE, MAX_PAUSE_SECONDS = 9, 60
#: Paths that are compared with rules until no more is said of the other rules: seconds, in an index of a million files.
MAX_COMPARED = 10_000_000
#: Rules that a warning names, and the most characters of each.
MAX_NAMED, MAX_NAMED_CHARACTERS = 3, 60

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MetadataWarnings:
    """Counts of files with values of other types than declared, and the rules that match no file."""

    mistyped: str | None = None
    unmatched: str | None = None


NONE = MetadataWarnings()


@dataclass(frozen=True, slots=True)
class _View:
    """A tool's view of an index's metadata. Two views with equal JSON are equal."""

    index_id: UUID
    view_json: str
    state: MetadataState
    pool: Pool = field(compare=False)
    view: MetadataView = field(compare=False)


def warnings_of(pool: Pool, index_id: UUID, view: MetadataView) -> MetadataWarnings:
    """The current warnings; none while a run is open.

    A thread looks, once for all callers. Nothing as well while it takes longer than `COUNT_SECONDS`.
    """
    state = metadata.state(pool, index_id) if view.declared or view.rules else None
    if state is None or not state.is_at_rest:
        return NONE
    key = _View(index_id, view.model_dump_json(), state, pool, view)
    known = _warnings.cached(key)
    if known is None and (thread := _begin_count(key)) is not None:
        thread.join(COUNT_SECONDS)
        known = _warnings.cached(key)
    return known or NONE


def _begin_count(key: _View) -> Thread | None:
    """Begin to count, unless this index is being counted or was a moment ago, or several others are being counted."""
    with _counts_lock:
        now = time.monotonic()
        for index_id in [each for each, until in _not_counted_until.items() if until <= now]:
            del _not_counted_until[index_id]
        if key.index_id in _not_counted_until or list(_not_counted_until.values()).count(inf) >= MAX_COUNTS:
            return None
        thread = Thread(target=_count, args=(key,), name="metadata", daemon=True)
        thread.start()
        _not_counted_until[key.index_id] = inf
        return thread


def _count(key: _View) -> None:
    began = time.monotonic()
    try:
        _warnings.get(key)
    except Exception:  # such as Postgres that restarts: a later status counts again
        log.warning("a config was not compared with the files", index_id=str(key.index_id), exc_info=True)
    finally:
        now = time.monotonic()
        # changes may come one after the other, each with a new state
        pause = PAUSE_SHARE * (now - began) if now - began > COUNT_SECONDS else 0
        with _counts_lock:
            _not_counted_until[key.index_id] = now + min(pause, MAX_PAUSE_SECONDS)


def _found(key: _View) -> MetadataWarnings:
    mistyped = keys_of(key.pool, key.index_id, key.view, 0).warning
    return MetadataWarnings(mistyped, _unmatched(key.pool, key.index_id, key.view.rules))


def _unmatched(pool: Pool, index_id: UUID, rules: Sequence[MetadataRule]) -> str | None:
    """The rules that match no file."""
    left, compared = [(rule.path, _takes(rule)) for rule in rules], 0
    for path in metadata.paths(pool, index_id) if left else ():
        compared += len(left)
        left = [each for each in left if not each[1](path)]
        if not left or compared > MAX_COMPARED:
            return None
    if not left:
        return None
    named = list_first([repr(path[:MAX_NAMED_CHARACTERS]) for path, _ in left], MAX_NAMED)
    return f"No listed file matches config.rules {named}; correct or remove that, as it sets and hides nothing."


def _takes(rule: MetadataRule) -> Takes:
    """The files that a rule selects. Rules with access lists compare other spellings of a name too."""
    if rule.acl is None:
        return takes_of(PathPattern("rules.path", rule.path))
    takes = takes_of(PathPattern("rules.path", normalized("NFC", rule.path)))
    return lambda path: takes(normalized("NFC", path))


_warnings: LookupCache[_View, MetadataWarnings] = LookupCache(_found, AT_REST_SECONDS)
#: Until when an index is not counted again, in seconds of the monotonic clock: while it is counted, infinity.
_not_counted_until: dict[UUID, float] = {}
_counts_lock = Lock()
