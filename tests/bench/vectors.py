"""Measures LanceDB's store by its number of rows: writing, indexing, search, disk, and the same just after an edit.

`ROWS="10000 5000000"` measures other numbers than the usual ones. The vectors are a mixture of Gaussians of few
dimensions each, as texts of some topics have. The texts are stretches of the Python files of installed packages. The
nearest rows are known without the store.
"""

from __future__ import annotations

import os
import re
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from worker.index.write import ROWS as ROWS_OF_WRITE
from worker.tokens.keywords import keywords_of
from worker.vectors import Condition, Leg, Ranked, Value, Vector, VectorRow
from worker.vectors.lance.compaction import Thresholds
from worker.vectors.lance.store import LanceStore

NUMBERS = (10_000, 100_000, 1_000_000)
DIMENSIONS = 384
NAMESPACE = "bench"
#: Rows of a topic on average, and the dimensions in which they differ.
ROWS_OF_TOPIC, DIMENSIONS_OF_TOPIC = 250, 24
#: Length of what sets a text apart from its topic, whose vector has length 1.
SPREAD = 0.8
#: Rows of a file, and words of a row and of a query.
ROWS_OF_FILE, WORDS, QUERY_WORDS = 10, 80, 5
#: Rows that an edit replaces: too few for a compaction.
EDITED = 40
#: Queries of each kind, and seconds after which no more are asked.
QUERIES, MAX_SECONDS = 200, 45.0
#: Hits that are compared with the nearest rows, and rows that each leg of a search asks for.
TOP, DEPTH = 10, 100
#: By path, of which the parts are the remainders of the file's number.
FILTERS = {"50 % of rows": ("/0",), "5 % of rows": ("/0/4",), "0.1 % of rows": ("/0/4/24",)}

Numbers = NDArray[np.int64]


def run(place: Path) -> None:
    words = _words()
    for number in [int(number) for number in os.environ.get("ROWS", "").split()] or NUMBERS:
        _measure(place / str(number), number, words)


def _measure(place: Path, number: int, words: Sequence[str]) -> None:
    made = Made(number, words)
    truth = Nearest(made.queries, spare=EDITED)
    print(f"{number:,} rows of {DIMENSIONS} dimensions", flush=True)
    without_vectors = replace(Thresholds(), large_rows=number + 1)
    _write(LanceStore(place, has_keywords=True, thresholds=without_vectors), made, truth)
    with _measured("index of vectors and filters"):
        LanceStore(place, has_keywords=True).optimize(NAMESPACE)
    print(f"    on disk: {bytes_below(place) / 1e6:,.0f} MB", flush=True)
    searching = LanceStore(place, has_keywords=True)
    _search(searching, made, truth)
    before = bytes_below(place)
    with _measured(f"edit of {EDITED} rows"):
        _edit(searching, made, truth)
    print(f"    written by it: {(bytes_below(place) - before) / 1e6:,.2f} MB")
    _search(searching, made, truth)


class Made:
    """Rows and queries that are the same in each run."""

    def __init__(self, number: int, words: Sequence[str]) -> None:
        self.number, self._words = number, words
        self._random = np.random.default_rng(number)
        topics = max(1, number // ROWS_OF_TOPIC)
        self._topics = _unit(self._random.normal(size=(topics, DIMENSIONS)).astype(np.float32))
        # topics share some of the directions in which their texts differ
        directions = self._random.normal(size=(64, DIMENSIONS_OF_TOPIC, DIMENSIONS)).astype(np.float32)
        self._directions = directions * (SPREAD / np.sqrt(DIMENSIONS * DIMENSIONS_OF_TOPIC))
        self.queries = self.vectors(QUERIES)
        self.questions = [self._stretch(QUERY_WORDS) for _ in range(QUERIES)]

    def vectors(self, number: int) -> Vector:
        """New texts, each of a random topic."""
        topics = self._random.integers(len(self._topics), size=number)
        made = self._topics[topics]
        noise = self._random.normal(size=(number, DIMENSIONS_OF_TOPIC)).astype(np.float32)
        for direction, of_topics in enumerate(self._directions):
            chosen = topics % len(self._directions) == direction
            made[chosen] += noise[chosen] @ of_topics
        return _unit(made)

    def rows(self, numbers: Sequence[int], vectors: Vector) -> list[VectorRow]:
        return [self._row(number, vector) for number, vector in zip(numbers, vectors, strict=True)]

    def _row(self, number: int, vector: Vector) -> VectorRow:
        file = number // ROWS_OF_FILE
        path = f"/{file % 2}/{file % 20}/{file % 1000}/{file}"
        attributes: dict[str, Value] = {
            "file_node_id": str(id_of(file)),
            "file_id_path": path,
            "file_name": f"{file}.py",
            "file_type": "py",
            "content_hash": f"sha256:{number:064x}",
            "chunk_id": str(id_of(number)),
            "language": "en",
            "level": 0,
        }
        return VectorRow(id_of(number), vector, attributes, keywords_of(path, "", self._stretch(WORDS), "en"))

    def _stretch(self, words: int) -> str:
        start = int(self._random.integers(len(self._words) - words))
        return " ".join(self._words[start : start + words])


class Nearest:
    """The rows nearest to each query, and some more that take the place of `spare` deleted ones."""

    def __init__(self, queries: Vector, spare: int) -> None:
        self._queries, self._kept = queries, TOP + spare
        self._numbers: Numbers = np.empty((len(queries), 0), np.int64)
        self._similarities: Vector = np.empty((len(queries), 0), np.float32)

    def add(self, numbers: Numbers, vectors: Vector) -> None:
        shape = (len(self._queries), len(numbers))
        self._numbers = np.hstack([self._numbers, np.broadcast_to(numbers, shape)])
        self._similarities = np.hstack([self._similarities, self._queries @ vectors.T])
        best = np.argsort(-self._similarities, axis=1)[:, : self._kept]
        self._numbers = np.take_along_axis(self._numbers, best, axis=1)
        self._similarities = np.take_along_axis(self._similarities, best, axis=1)

    def remove(self, numbers: Numbers) -> None:
        self._similarities[np.isin(self._numbers, numbers)] = -np.inf

    def recall(self, answers: Sequence[Ranked]) -> float:
        """The share of the nearest rows that the answers to the first queries have."""
        best = np.argsort(-self._similarities, axis=1)[: len(answers), :TOP]
        nearest = np.take_along_axis(self._numbers[: len(answers)], best, axis=1)
        found = [
            len({str(id_of(int(number))) for number in row} & set(answer.ids[:TOP]))
            for row, answer in zip(nearest, answers, strict=True)
        ]
        return sum(found) / (TOP * len(answers))


@dataclass
class Spent:
    """Seconds on the clock, and of processor time in all threads of this process."""

    seconds: float = 0.0
    processor: float = 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        began, used = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - began
        self.processor += time.process_time() - used

    def print(self, what: str) -> None:
        print(f"    {what}: {self.seconds:,.2f} s, {self.processor:,.2f} s of processor", flush=True)


@contextmanager
def _measured(what: str) -> Iterator[None]:
    spent = Spent()
    with spent.counted():
        yield
    spent.print(what)


def _write(store: LanceStore, made: Made, truth: Nearest) -> None:
    """Write and index the rows as a run does."""
    writing, indexing, numbers = Spent(), Spent(), iter(range(made.number))
    while batch := list(islice(numbers, ROWS_OF_WRITE)):
        vectors = made.vectors(len(batch))
        truth.add(np.array(batch), vectors)
        rows = made.rows(batch, vectors)
        with writing.counted():
            store.write(NAMESPACE, DIMENSIONS, rows)
        with indexing.counted():
            store.optimize(NAMESPACE, writing=True)
    with indexing.counted():
        store.optimize(NAMESPACE)
    writing.print("write")
    indexing.print("index of words and ids")


def _edit(store: LanceStore, made: Made, truth: Nearest) -> None:
    """Replace rows by others of the same files."""
    old = np.arange(EDITED) * (made.number // EDITED)
    new = old + made.number
    vectors = made.vectors(EDITED)
    truth.remove(old)
    truth.add(new, vectors)
    store.write(NAMESPACE, DIMENSIONS, made.rows(new.tolist(), vectors), deletes=[id_of(int(one)) for one in old])


def _search(store: LanceStore, made: Made, truth: Nearest) -> None:
    by_vector = [Leg(DEPTH, vector=vector) for vector in made.queries]
    # the second search of a table may read it into memory
    for leg in by_vector[:3]:
        store.search(NAMESPACE, [replace(leg, limit=DEPTH + 1)])
    answers = _asked(store, "vectors", [[leg] for leg in by_vector])
    print(f"    recall@{TOP}: {truth.recall(answers):.3f}")
    for kind, folders in FILTERS.items():
        condition = Condition("file_id_path", "prefix", folders)
        _asked(store, f"vectors in {kind}", [[replace(leg, conditions=[condition])] for leg in by_vector])
    words = [Leg(DEPTH, keywords=question) for question in made.questions]
    _asked(store, "words and identifiers", [[leg, replace(leg, field="code")] for leg in words])


def _asked(store: LanceStore, what: str, searches: Sequence[Sequence[Leg]]) -> list[Ranked]:
    """Time each search, and return the answers of their first legs."""
    answers, times, spent = [], [], Spent()
    ends = time.monotonic() + MAX_SECONDS
    for legs in searches:
        before = spent.seconds
        with spent.counted():
            answers.append(store.search(NAMESPACE, legs)[0])
        times.append(spent.seconds - before)
        if time.monotonic() > ends:
            break
    p50, p99 = np.percentile(times, (50, 99)) * 1000
    processor = spent.processor / len(times) * 1000
    print(
        f"    {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {processor:.1f} ms of processor ({len(times)} queries)",
        flush=True,
    )
    return answers


def id_of(number: int) -> UUID:
    """An id like a hash: neighbours have nothing in common."""
    return UUID(int=(number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128))


def _unit(vectors: Vector) -> Vector:
    unit: Vector = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _words() -> list[str]:
    """Words of the installed packages in their order, as code and its comments have them."""
    packages = Path(sysconfig.get_paths()["purelib"])
    words: list[str] = []
    for path in sorted(packages.rglob("*.py")):
        words += re.findall(r"\w+(?:\.\w+)*", path.read_text(errors="ignore"))
        if len(words) > 5_000_000:
            break
    return words


def bytes_below(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
