"""Words of LanceDB tables in memory. A word search there takes a tenth of Lance's processor time.

Only rows whose vectors are in memory have their words there, at the same positions. The thread that reads the vectors
also reads the words, and later versions add new rows. Until the words are read, and for other tables, Lance searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np
import structlog
from numpy.typing import NDArray

from worker.vectors import Leg, Ranked
from worker.vectors.lance import bm25
from worker.vectors.lance.background import BackgroundReads
from worker.vectors.lance.growing_rows import GrowingNamespaceRows, HaveSameWords
from worker.vectors.lance.indexes import COLUMNS, FIELDS
from worker.vectors.lance.vector_cache import (
    LatestPerNamespace,
    NamespaceRows,
    Passing,
    Positions,
    RowIds,
    SearchCounter,
)
from worker.vectors.rows import words

#: Bytes of words that a searching process keeps in memory by default. 35,000 chunks of code take 50 MB.
WORD_BYTES = 128 * 1024**2
#: A search adds up to this many new rows itself; more are added in the background. A row takes 40 microseconds. Lance
#: takes a third of that for each row without an index, at each search, and a run leaves many such rows.
FEW_ROWS = 4_096
#: Assumed bytes of a table's other data in word memory.
FIXED_BYTES = 4_096
#: Words may leave the memory before their rows do. Of every `SEARCHES_PER_READ` searches, this one reads them again.
NEXT_READ = 0

#: Reads the keyword columns of rows, or of all if these are None, in batches of Arrow with their `_rowid`.
Read = Callable[[Sequence[str], RowIds | None], Iterable[Any]]

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Postings:
    """The postings of one column, and the number of words of each row, by position."""

    blocks: tuple[bm25.PostingsBlock, ...]
    lengths: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.lengths.nbytes + sum(block.nbytes for block in self.blocks)


#: The postings of the keyword columns.
_State = Mapping[str, Postings]


class WordMemory:
    """The words of a namespace's rows in memory. Thread-safe."""

    def __init__(self, growing: GrowingNamespaceRows, columns: Sequence[str]) -> None:
        self._growing = ref(growing)
        self._lock = Lock()
        self._vocabularies = {name: bm25.Vocabulary() for name in columns}
        nothing = Postings((), np.empty(0, np.uint32))
        #: Hashes of the words of each row, by position.
        self._hashes = np.empty(0, np.int64)
        #: None if the words take more than their limit.
        self._state: _State | None = dict.fromkeys(columns, nothing)
        self._statistics: tuple[tuple[int, int], _State, dict[str, bm25.CorpusStatistics]] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of postings and vocabularies."""
        return FIXED_BYTES if self._state is None else self._bytes(self._state)

    def _bytes(self, state: _State) -> int:
        vocabularies = bm25.WORD_BYTES * sum(map(len, self._vocabularies.values()))
        return FIXED_BYTES + vocabularies + self._hashes.nbytes + sum(postings.nbytes for postings in state.values())

    def is_of(self, growing: GrowingNamespaceRows) -> bool:
        """Return whether positions belong to these rows."""
        return self._growing() is growing

    def is_released(self) -> bool:
        """Return whether its rows have left the memory."""
        return self._growing() is None

    def is_too_large(self) -> bool:
        """Return whether the words take more than their limit."""
        return self._state is None

    def lacks(self, rows: NamespaceRows) -> int:
        """Return the number of positions whose words are not known."""
        return len(rows.unit) - _covered(self._state) if self._state is not None else len(rows.unit)

    def are_same(self, read: Read, row_ids: RowIds, positions: Positions) -> NDArray[np.bool_]:
        """Return which rows have the words that are in memory at these positions. `read` may yield others, too."""
        hashes, order = self._hashes, np.argsort(row_ids)
        found = np.zeros(len(row_ids), np.int64)
        for batch in read(FIELDS, row_ids):
            of_batch = batch["_rowid"].to_numpy()
            asked = np.isin(of_batch, row_ids)
            found[order[np.searchsorted(row_ids, of_batch[asked], sorter=order)]] = _hashes_of(batch)[asked]
        same = positions < len(hashes)
        same[same] = found[same] == hashes[positions[same]]
        return same

    def found(self, leg: Leg, rows: NamespaceRows, passing: Passing | None) -> Ranked | None:
        """Answer a leg over these rows; only `passing` rows pass its filter.

        Returns None if only Lance can answer: words are missing from memory.
        """
        # in this order, because words that are too large lose their state first
        vocabularies, state, name = self._vocabularies, self._state, COLUMNS[leg.field]
        if state is None or name not in state or _covered(state) < len(rows.unit):
            return None
        numbers = bm25.known_numbers(vocabularies[name], words(leg), every=leg.phrase)
        now = self._statistics_of(rows, state)[name]
        # the words may be those of a later version, whose new rows are at the end
        scores = bm25.scores(state[name].blocks, numbers, now, every=leg.phrase)[: len(rows.unit)]
        scores = scores if passing is None else bm25.within(scores, passing)
        found = bm25.best_positions(scores, leg.limit)
        return rows.ranked(found, scores[found], leg.limit, descending=True)

    def add(self, rows: NamespaceRows, read: Read, max_bytes: int) -> None:
        """Read the words of rows that are not known yet. Returns at once if another thread already does so."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            before = self._state
            if before is None or not self.lacks(rows):
                return
            covered = _covered(before)
            new = rows.row_ids[rows.positions >= covered] if covered else None
            after = self._added(before, rows, read([*before], new), max_bytes)
            self._state = after if after is not None and self._bytes(after) <= max_bytes else None
            if self._state is None:
                self._vocabularies, self._statistics, self._hashes = {}, None, np.empty(0, np.int64)
        finally:
            self._lock.release()

    def _added(self, before: _State, rows: NamespaceRows, batches: Iterable[Any], max_bytes: int) -> _State | None:
        """Return the postings including new rows; None as soon as they exceed the limit."""
        lengths = {name: np.zeros(len(rows.unit), np.uint32) for name in before}
        hashes = np.zeros(len(rows.unit), np.int64)
        hashes[: len(self._hashes)] = self._hashes
        added: dict[str, list[bm25.Occurrences]] = {name: [] for name in before}
        used = self._bytes(before)
        for batch in batches:
            positions = rows.positions_of(batch["_rowid"].to_numpy())
            hashes[positions] = _hashes_of(batch)
            for name in before:
                found = bm25.occurrences(batch[name], positions, self._vocabularies[name])
                lengths[name][positions] = found.lengths
                added[name].append(found)
                used += found.nbytes
            if used > max_bytes:
                return None
        after = {}
        for name, postings in before.items():
            lengths[name][: len(postings.lengths)] = postings.lengths
            new = [bm25.block(added[name])] if added[name] else []
            after[name] = Postings(bm25.merged([*postings.blocks, *new]), lengths[name])
        self._hashes = hashes
        return after

    def _statistics_of(self, rows: NamespaceRows, state: _State) -> Mapping[str, bm25.CorpusStatistics]:
        """Return the corpus statistics for this state of the rows, by column."""
        kept = self._statistics
        # rows come at the end, and those that went never come back
        live = len(rows.unit), len(rows.positions)
        if kept is not None and kept[0] == live and kept[1] is state:
            return kept[2]
        made = {name: bm25.corpus_statistics(postings.lengths, rows.positions) for name, postings in state.items()}
        self._statistics = live, state, made
        return made


def _covered(state: _State | None) -> int:
    """Return the number of positions whose words are known."""
    return min((len(postings.lengths) for postings in state.values()), default=0) if state else 0


def _hashes_of(batch: Any) -> NDArray[np.int64]:
    """Return a hash of the words of each row of a batch of Arrow."""
    columns = (batch[name].to_pylist() for name in FIELDS)
    return np.fromiter(map(hash, zip(*columns, strict=True)), np.int64, len(batch))


class WordMemories:
    """The words of the most recently searched tables, with at most `max_bytes`. Thread-safe."""

    def __init__(self, max_bytes: int, background: BackgroundReads) -> None:
        self._max_bytes = max_bytes
        self._background = background
        self._kept: LatestPerNamespace[WordMemory] = LatestPerNamespace(max(1, max_bytes), lambda memory: memory.nbytes)
        self._searches = SearchCounter(NEXT_READ)

    def of(
        self, namespace: str, number: int, growing: GrowingNamespaceRows, rows: NamespaceRows, read: Read
    ) -> WordMemory | None:
        """Return the words of rows; None if they are not in memory. Then begins to read them if that is due.

        `rows` are the latest of `growing`, and `read` reads the same version of their table.
        """
        memory = self._kept.get(namespace, (number,))
        if memory is None or not memory.is_of(growing):
            if self._searches.is_read_due(namespace, number):
                self._begin(namespace, number, growing, rows, read)
            return None
        if memory.is_too_large():
            return None
        new = memory.lacks(rows)
        if new > FEW_ROWS:
            self._begin(namespace, number, growing, rows, read)
        elif new > 0:
            self._add(namespace, number, memory, rows, read)
        return memory

    def comparison(
        self, namespace: str, number: int, growing: GrowingNamespaceRows, read: Read | None
    ) -> HaveSameWords | None:
        """Return a function that compares words of rows with those in memory; None if these are not there.

        `read` is None if rows have no words.
        """
        if read is None:
            return lambda _, positions: np.ones(len(positions), np.bool_)
        memory = self._kept.get(namespace, (number,))
        if memory is None or memory.is_too_large() or not memory.is_of(growing):
            return None
        return partial(memory.are_same, read)

    def read(self, namespace: str, number: int, growing: GrowingNamespaceRows, rows: NamespaceRows, read: Read) -> None:
        """Read the words of rows that are not in memory yet. The parameters are those of `of`."""
        self.forget_released()
        if self._max_bytes <= 0:
            return
        memory = self._kept.get(namespace, (number,))
        if memory is None or not memory.is_of(growing):
            # if they cannot be read, not every search tries it
            self._kept.drop(namespace)
            memory = WordMemory(growing, FIELDS)
        self._add(namespace, number, memory, rows, read)

    def forget_released(self) -> None:
        """Remove the words of rows that have left the memory."""
        self._kept.drop_if(lambda _, memory: memory.is_released())

    def _begin(
        self, namespace: str, number: int, growing: GrowingNamespaceRows, rows: NamespaceRows, read: Read
    ) -> None:
        self._background.begin(namespace, partial(self.read, namespace, number, growing, rows, read))

    def _add(self, namespace: str, number: int, memory: WordMemory, rows: NamespaceRows, read: Read) -> None:
        try:
            memory.add(rows, read, self._max_bytes)
        except Exception:  # such as a file that a compaction deleted: Lance searches this version, too
            log.warning("the words of a LanceDB table could not be read", namespace=namespace, exc_info=True)
            return
        self._kept.put(namespace, (number,), memory)
