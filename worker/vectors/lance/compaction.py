"""Keeps LanceDB tables fast to search after many small writes, at a cost proportional to the writes.

Each write adds a fragment, which no index covers. Queries slow down with fragments and with rows without an index.
LanceDB's own `optimize` writes about as much as the table holds, because it merges all new rows into the largest
fragment and index. So Lance is called directly. New fragments are joined, and each index gets a segment for them. A
segment or fragment is merged with newer ones once these hold a fair share of its rows, as in a log-structured merge
tree. So the number of times that a row is rewritten grows with the logarithm of the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from worker.vectors.lance.vector_index import MIN_ROWS

# A compaction that loses a race is repeated, so its message is suppressed. The library reads this once, on import.
os.environ.setdefault("LANCE_LOG", "warn,lance::dataset::optimize=error")
# Only the number of partitions is read from an index's statistics.
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A table is compacted once it reaches any of the first three thresholds."""

    #: Fragments that no index covers. Each adds about 0.15 ms to a query.
    fragments: int = 8
    #: Rows that no index covers. Each adds about 0.03 ms to a query.
    rows: int = 64
    #: A fragment is rewritten once at least this many of its rows are deleted, and at least one in `deleted_share`.
    min_deleted: int = 256
    deleted_share: int = 5
    #: A fragment or segment is merged with the newer ones if it has at most this many times their rows.
    ratio: int = 2
    #: An indexed fragment with this many rows is not joined with others: its indexes would be rewritten.
    full_rows: int = 16_384
    #: A new fragment with this many rows is not joined with others. Joining more takes more memory.
    joined_rows: int = 16_384
    #: During a run, rows without an index are indexed once there are this many. Searches add some thousand new rows to
    #: their cache in memory. Beyond that they read new rows each time, and those of a larger table always, in 14 ms of
    #: processor time per thousand. Each segment of an index takes 3 ms. Short runs end before the first check, and so
    #: never index rows that they replace.
    rows_while_writing: int = 8_192
    #: Segments that a run left unmerged are merged once there are this many.
    left: int = 4
    #: Old versions are deleted once there are this many.
    versions: int = 100
    #: A table with this many rows has an approximate index of vectors, and indexes of the filter columns.
    large_rows: int = MIN_ROWS


def is_due(dataset: Any, thresholds: Thresholds, *, writing: bool = False) -> bool:
    """Return whether a table should be compacted; `writing` during a run. Takes a few milliseconds."""
    new = _unindexed(dataset)
    rows = sum(map(_rows, new))
    if writing:
        return rows >= thresholds.rows_while_writing
    return (
        len(new) >= thresholds.fragments
        or rows >= thresholds.rows
        or bool(_worn(dataset.get_fragments(), thresholds))
        or any(number_left(sizes, thresholds) for sizes in _segments(dataset).values())
    )


def compact(opened: Callable[[], Any], thresholds: Thresholds, *, writing: bool = False) -> None:
    """Join new fragments, index them, and merge small ones, but not while a run is still `writing`.

    Raises Lance's errors, also if it loses a race.
    """
    dataset = opened()
    _join(dataset, _unindexed(dataset), thresholds)
    _index(opened(), thresholds, writing=writing)
    if writing:
        return
    dataset = opened()
    fragments = dataset.get_fragments()
    sizes = [_rows(fragment) for fragment in fragments]
    # Fragments of different segments are never joined, so this comes after the merge of segments.
    newest = number_to_merge(sizes[:-1], sizes[-1], thresholds.ratio) + 1 if sizes else 0
    small = [each for each in fragments[len(fragments) - newest :] if _rows(each) < thresholds.full_rows]
    _join(dataset, [*small, *_worn(fragments, thresholds)], thresholds)


def number_to_merge(sizes: Sequence[int], rows: int, ratio: int) -> int:
    """Return the number of the newest `sizes`, oldest first, to merge with `rows` newer rows."""
    number = 0
    for size in reversed(sizes):
        if size > ratio * rows:
            break
        rows += size
        number += 1
    return number


def number_left(sizes: Sequence[int], thresholds: Thresholds) -> int:
    """Return the number of the newest `sizes`, oldest first, that a run left unmerged; 0 if these are few."""
    rows = number = 0
    for count, size in enumerate(reversed(sizes), 1):
        number = count if size <= thresholds.ratio * rows else number
        rows += size
    return number if number >= thresholds.left else 0


def _index(dataset: Any, thresholds: Thresholds, *, writing: bool) -> None:
    """Add a segment for new rows to each index, merged with small ones unless a run is still `writing`."""
    total = sum(map(_rows, dataset.get_fragments()))
    for name, sizes in _segments(dataset).items():
        new, number = total - sum(sizes), 0
        if not writing:
            number = max(number_to_merge(sizes, new, thresholds.ratio) if new else 0, number_left(sizes, thresholds))
        if new or number:
            dataset.optimize.optimize_indices(index_names=[name], num_indices_to_merge=number)


def _segments(dataset: Any) -> dict[str, list[int]]:
    """Return the rows of each segment of each index, oldest first."""
    rows = {fragment.fragment_id: _rows(fragment) for fragment in dataset.get_fragments()}
    return {
        index.name: [_rows_of(segment.fragment_ids, rows) for segment in index.segments]
        for index in dataset.describe_indices()
    }


def _join(dataset: Any, chosen: Collection[Any], thresholds: Thresholds) -> None:
    """Rewrite neighbours as one fragment, without deleted rows. Each result is a commit, so that a race costs one."""
    from lance.optimize import Compaction

    ids = {fragment.fragment_id for fragment in chosen}
    if not ids:
        return
    others = [fragment.fragment_id for fragment in dataset.get_fragments() if fragment.fragment_id not in ids]
    options = {
        "target_rows_per_fragment": thresholds.joined_rows,
        # The library requires a strictly greater share.
        "materialize_deletions_threshold": 0.99 / thresholds.deleted_share,
        "excluded_fragment_ids": others,
    }
    for task in Compaction.plan(dataset, options).tasks:
        Compaction.commit(dataset, [task.execute(dataset)], options)


def _unindexed(dataset: Any) -> list[Any]:
    """Return the fragments that some index does not cover."""
    fragments = dataset.get_fragments()
    covered = [
        {fragment for segment in index.segments for fragment in segment.fragment_ids}
        for index in dataset.describe_indices()
    ]
    return [fragment for fragment in fragments if not all(fragment.fragment_id in each for each in covered)]


def _worn(fragments: Sequence[Any], thresholds: Thresholds) -> list[Any]:
    """Return the fragments with many deleted rows."""
    return [
        fragment
        for fragment in fragments
        if fragment.metadata.num_deletions
        >= max(thresholds.min_deleted, fragment.metadata.physical_rows / thresholds.deleted_share)
    ]


def _rows(fragment: Any) -> int:
    rows: int = fragment.metadata.num_rows
    return rows


def _rows_of(fragment_ids: Collection[int], rows: dict[int, int]) -> int:
    return sum(rows.get(fragment_id, 0) for fragment_id in fragment_ids)
