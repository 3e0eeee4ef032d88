"""The part of a tree that a caller may read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from api.http.lookup_cache import LookupCache
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import MetadataState
from worker.state.tree import views
from worker.state.tree.trees import Tree
from worker.state.tree.views import ALL, ShownPart

#: Seconds for which a process remembers it, as long as neither the tree nor the files and their lists change.
AT_REST_SECONDS = 300
#: The size of all that it remembers, in keys of summaries of 120 bytes: 24 MB.
MAX_KEYS = 200_000


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A build of a tree as callers see it who may read the same files."""

    tree_id: UUID
    built_at: datetime | None
    files: frozenset[UUID]
    state: MetadataState
    pool: Pool = field(compare=False)
    tree: Tree = field(compare=False)


def shown_part(pool: Pool, tree: Tree, files: frozenset[UUID] | None) -> ShownPart:
    """The readable part of a tree for a caller who may read only these files; None: all files.

    A summary that is not known to be readable is hidden, also one of a build that ends meanwhile.
    """
    if files is None:
        return ALL
    state = metadata.state(pool, tree.index_id)
    key = _Lookup(tree.id, tree.built_at, files, state, pool, tree)
    readable = _at_rest.get(key) if state.is_at_rest else _readable(key)
    return ShownPart(list(files), list(readable or ()))


def _readable(key: _Lookup) -> Collection[str]:
    return views.readable_summaries(key.pool, key.tree, list(key.files))


def _size(_: _Lookup, readable: Collection[str]) -> int:
    return 100 + len(readable)


_at_rest: LookupCache[_Lookup, Collection[str]] = LookupCache(_readable, AT_REST_SECONDS, MAX_KEYS, _size)
