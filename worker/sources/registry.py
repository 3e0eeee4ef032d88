"""The kinds of sources, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.content.source import AnySource, LocalSource, NodesSource, S3Source
from worker.ignore import EVERYTHING, Rules
from worker.sources import Source
from worker.sources.changes_seen import Followed
from worker.sources.kind import ContentAccess, IndexedTarget, SourceKind, SourceLocation, WatchAccess
from worker.sources.local_kind import LocalKind
from worker.sources.nodes import NodesKind
from worker.sources.s3 import S3Kind
from worker.state.index.changes import WatchedIndex

#: Kinds by the model of their sources. The first kind that knows a path locates it; any path may belong to nodes.
KINDS: dict[type[Any], SourceKind[Any]] = {
    S3Source: S3Kind(),
    LocalSource: LocalKind(),
    NodesSource: NodesKind(),
}


def open_source(access: ContentAccess, source: AnySource, rules: Rules = EVERYTHING) -> Source:
    """See `SourceKind.open`."""
    return KINDS[type(source)].open(access, source, rules)


def target_of(access: ContentAccess, source: AnySource) -> IndexedTarget:
    """See `SourceKind.target`."""
    return KINDS[type(source)].target(access, source)


def address_prefix(source: AnySource, address: str | None) -> str:
    """See `SourceKind.address_prefix`."""
    return KINDS[type(source)].address_prefix(address)


def addresses(access: ContentAccess, sources: Sequence[AnySource]) -> list[str | None]:
    """See `SourceKind.addresses`."""
    by_number: dict[int, str | None] = {}
    for model, kind in KINDS.items():
        numbers = [number for number, source in enumerate(sources) if type(source) is model]
        if numbers:
            by_number |= zip(numbers, kind.addresses(access, [sources[number] for number in numbers]), strict=True)
    return [by_number[number] for number in range(len(sources))]


def locate(access: ContentAccess, path: str) -> list[SourceLocation]:
    """See `SourceKind.locate`."""
    for kind in KINDS.values():
        locations = kind.locate(access, path)
        if locations is not None:
            return locations
    return []


def watch_source(access: WatchAccess, index: WatchedIndex) -> Followed | None:
    """See `SourceKind.watch`."""
    return KINDS[type(index.source)].watch(access, index.source, index)
