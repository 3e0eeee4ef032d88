"""Turns a caller and an index into the files that may be shown. The only place that decides this.

Everything that shows a text, a name, an id or a count of an index asks here first, and filters before it ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

from api.http.lookup_cache import LookupCache
from api.http.sight import SeenIndex
from api.search.text.path_pattern import PathPattern
from schemas.content.acl import Sight, admits
from schemas.queries.metadata import MetadataRule
from worker.state.access import acl
from worker.state.access.acl import Version
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import MetadataState
from worker.tokens.normal_forms import normalized

#: Raises what ends the work early, such as that the caller has disconnected.
Check = Callable[[], None]

#: Seconds for which a process remembers which files are visible, as long as no list changes: files that a run adds
#: meanwhile stay hidden until then. Without a run, nothing changes.
VISIBLE_SECONDS, AT_REST_SECONDS = 0.5, 300
#: The size of all that is remembered, in files of 300 bytes: 180 MB.
MAX_VISIBLE = 600_000
#: The most files of an index that are remembered: 300 MB. However many, they count as half of that size, so that two
#: such indexes are, or one and the smaller ones of others.
MAX_OF_INDEX = 1_000_000


@dataclass(frozen=True, slots=True)
class VisibleFiles:
    """The only files of an index that a caller may read, by both of their ids; `in_order` are the second, sorted.

    `by_path` are the first, of 16 bytes each, in the order of paths; None while a run may change these.
    """

    ids: frozenset[UUID]
    node_ids: frozenset[str]
    in_order: Sequence[str] = field(compare=False)
    by_path: bytes | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """An index as callers with the same principals see it, as long as no list changes."""

    index_id: UUID
    principals: frozenset[str]
    version: Version | None
    state: MetadataState
    rules: str
    is_selective: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """A cached lookup: a cache has no None."""

    visible: VisibleFiles | None


def visible_files(
    pool: Pool, index: SeenIndex, check: Check = lambda: None, state: MetadataState | None = None
) -> VisibleFiles | None:
    """The files of an index that its caller may read; None: all of them. `state` is what this call has just read.

    Current for lists and places of nodes and for rules, and at most `VISIBLE_SECONDS` old for files that a run adds.
    """
    principals, rules, version = index.sight.principals, rules_with_lists(index), _version(pool, index)
    if principals is None or (version is None and not rules):
        return None
    shown_rules = "\n".join(rule.model_dump_json() for rule in rules)
    state = state or metadata.state(pool, index.id)
    is_selective = index.lists is not None and index.lists.is_selective
    key = _Lookup(index.id, principals, version, state, shown_rules, is_selective)
    visible = cast("_Found", _cache.get(key, lambda: _find(pool, index, key, check))).visible
    if visible is None and index.lists is not None:
        index.lists.sees_all = True
    return visible


def are_counted(pool: Pool, index: SeenIndex) -> bool:
    """Whether counts of an index may be shown to its caller: no list may hide a file of it.

    It does not matter whether one does: otherwise, a missing count would tell that something is hidden.
    """
    if index.sight.is_whole:
        return True
    version = _version(pool, index)
    if rules_with_lists(index):
        return False
    return version is None or not _may_hide.get((index.id, version), lambda: acl.may_hide(pool, index.id))


def ids_of(visible: VisibleFiles | None) -> frozenset[UUID] | None:
    """The only files that may be read; None: all."""
    return None if visible is None else visible.ids


def admitted_paths(index: SeenIndex) -> Callable[[str], bool] | None:
    """Whether the rules of a tool let its caller read a file at a path; None: at any path."""
    rules, principals = rules_with_lists(index), index.sight.principals
    if principals is None or not rules:
        return None
    # later rules replace earlier ones
    tests = [
        (PathPattern("rules.path", normalized("NFC", rule.path)).anywhere(), admits(rule.acl or (), principals))
        for rule in reversed(rules)
    ]

    def is_admitted(path: str) -> bool:
        # systems spell the same name in several ways
        path = normalized("NFC", path)
        return next((admitted for takes, admitted in tests if takes(path)), True)

    return is_admitted


def visible_nodes(pool: Pool, project_id: str, sight: Sight, ids: Collection[str]) -> set[str]:
    """The nodes among some of a project that may be shown, whatever the rules of tools say."""
    if sight.principals is None:
        return set(ids)
    return acl.visible_nodes(pool, project_id, ids, acl.readable(pool, project_id, sight.principals))


def _version(pool: Pool, index: SeenIndex) -> Version | None:
    """That of the lists of a project; None as long as there is none, or for a caller whom they do not concern."""
    if index.sight.is_whole:
        return None
    return acl.version(pool, index.project_id) if index.lists is None else index.lists.number


def rules_with_lists(index: SeenIndex) -> list[MetadataRule]:
    """The rules of a tool that have access lists."""
    return [rule for rule in index.metadata.rules if rule.acl is not None]


def _find(pool: Pool, index: SeenIndex, key: _Lookup, check: Check) -> _Found:
    classes = acl.readable(pool, index.project_id, key.principals)
    is_admitted = admitted_paths(index)
    if is_admitted is None and not key.is_selective and not acl.any_hidden(pool, index.id, classes):
        return _Found(None)
    files = acl.visible_files(pool, index.id, classes, with_paths=is_admitted is not None)
    if is_admitted is not None:
        shown = []
        for file in files:
            check()
            shown += [file] if is_admitted(file.path or "") else []
        files = shown
    node_ids = frozenset(file.node_id for file in files)
    by_path = b"".join(file.id.bytes for file in files) if key.state.is_at_rest else None
    return _Found(VisibleFiles(frozenset(file.id for file in files), node_ids, sorted(node_ids), by_path))


def _size(key: _Lookup, found: _Found) -> int:
    files = len(found.visible.ids) if found.visible else 0
    size = 100 + len(key.rules) // 5 + files
    return min(size, MAX_VISIBLE // 2) if size <= MAX_OF_INDEX else size


def _seconds(key: _Lookup) -> float:
    return AT_REST_SECONDS if key.state.is_at_rest else VISIBLE_SECONDS


#: Each call reads by itself: what it has, such as its connection, must not stay.
_cache: LookupCache[_Lookup, _Found] = LookupCache(lambda _key: None, _seconds, MAX_VISIBLE, _size)
#: Whether a list may hide a file of an index, as long as no list and no place of a node changes.
_may_hide: LookupCache[tuple[UUID, Version], bool] = LookupCache(lambda _key: None, AT_REST_SECONDS)
