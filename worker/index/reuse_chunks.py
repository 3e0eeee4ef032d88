"""Compares prepared files with their live chunks, so that nothing is embedded or written twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from worker.index.file_states import File, PreparedFile, UnchangedFile
from worker.index.run import IndexRun
from worker.state.index import chunks
from worker.state.index.chunks import LiveChunk, PlacedChunk


def match_live(run: IndexRun, files: Sequence[File]) -> list[File]:
    """Give chunks that are already live their ids."""
    with_live = [file.claim.id for file in files if isinstance(file, PreparedFile) and file.claim.live_chunks]
    if not with_live:
        return list(files)
    live = chunks.live(run.pool, with_live)
    return [
        _matched(file, live[file.claim.id]) if isinstance(file, PreparedFile) and file.claim.live_chunks else file
        for file in files
    ]


def restore(run: IndexRun, files: Sequence[File]) -> list[File]:
    """Add the live chunks that lack their vectors to files whose text is unchanged."""
    with_lost = [file.claim.id for file in files if isinstance(file, UnchangedFile) and file.claim.lost]
    if not with_lost:
        return list(files)
    lost = chunks.read_lost(run.pool, with_lost)
    return [
        replace(file, lost=lost.get(file.claim.id, [])) if isinstance(file, UnchangedFile) and file.claim.lost else file
        for file in files
    ]


def match_unused(
    run: IndexRun, file: PreparedFile, placed: Sequence[PlacedChunk]
) -> tuple[Sequence[PlacedChunk], frozenset[UUID]]:
    """Give these chunks of a file the ids of equal live chunks that the file does not use. Returns those ids too."""
    if not file.claim.live_chunks:
        return placed, frozenset()
    live = chunks.live(run.pool, [file.claim.id])[file.claim.id]
    matched = _matched(replace(file, chunks=placed), [row for row in live if row.id not in file.live])
    return matched.chunks, matched.live


def _matched(file: PreparedFile, live: Sequence[LiveChunk]) -> PreparedFile:
    """Return the file whose chunks have the ids of equal live chunks. Each id is used once, in order."""
    unused: dict[tuple[object, ...], list[UUID]] = defaultdict(list)
    for row in reversed(live):
        unused[_key_of_live(row)].append(row.id)
    placed = list(file.chunks)
    kept: set[UUID] = set()
    for number, chunk in enumerate(placed):
        ids = unused[_key_of_placed(chunk)]
        if ids:
            id_ = ids.pop()
            placed[number] = replace(chunk, id=id_)
            kept.add(id_)
    drops_vectors = any(row.embedded and row.id not in kept for row in live)
    return replace(file, chunks=placed, live=frozenset(kept), drops_vectors=drops_vectors)


def _key_of_live(row: LiveChunk) -> tuple[object, ...]:
    location = (row.json_pointer, row.symbol, row.node_type, row.scope, row.language, row.level)
    return (row.content_hash, row.embedded, *location)


def _key_of_placed(placed: PlacedChunk) -> tuple[object, ...]:
    c = placed.chunk
    location = (c.json_pointer, c.symbol, c.node_type, c.scope, placed.language, c.level)
    return (placed.content_hash, placed.embedded, *location)
