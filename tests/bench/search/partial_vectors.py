"""How well an index answers while a part of its chunks has vectors: none of it may be worse than words alone.

The legs are recorded over a complete index, to a depth that reaches all its chunks. Then vectors are taken away: of
large files first, as small ones are embedded first, or of files or chunks by chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from api.search.query.index_search import MAX_DEPTH, MIN_DEPTH
from api.search.rank.weights import WEIGHTS
from schemas.queries.search import Query
from tests.bench.search.folded import Folds
from tests.bench.search.indexed import indexed
from tests.bench.search.measures import ranks, recall
from tests.bench.search.recorded import Recorded, Recording, Rows, passages, ranked, recording
from tests.bench.search.trees.coverage import Mean, difference
from worker.state.search.found_chunks import HitRow

#: Shares of the chunks that have vectors.
SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
DEPTH = 10

#: Places a chunk among all others, from 0 to 1: those up to a share have vectors.
Order = Callable[[str, HitRow], float]


def _by_hash(text: str) -> float:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest()) / 2**56


def by_chunk(id_: str, _: HitRow) -> float:
    """Chunks by chance."""
    return _by_hash(id_)


def by_file(_: str, row: HitRow) -> float:
    """Files by chance."""
    return _by_hash(row.file_path)


def smallest_first(rows: Rows) -> Order:
    """Files in the order in which they are embedded."""
    chunks = {row.file_path: row.total_chunks for row in rows.values()}
    total, before, places = sum(chunks.values()), 0, {}
    for path in sorted(chunks, key=lambda path: (chunks[path], path)):
        before += chunks[path]
        places[path] = before / total
    return lambda _, row: places[row.file_path]


#: How vectors are taken away.
ORDERS: Mapping[str, Callable[[Rows], Order]] = {
    "chunks by chance": lambda _: by_chunk,
    "files by chance": lambda _: by_file,
    "smallest first": smallest_first,
}


def with_share(each: Recorded, rows: Rows, order: Order, share: float) -> Recorded:
    """What the legs would find if only the first chunks of an order had vectors."""
    rankings = []
    for ranking in each.rankings:
        results = ranking.results
        if ranking.kind == "vector":
            results = [row for row in results if row.id in rows and order(row.id, rows[row.id]) <= share]
            ranking = replace(ranking, share=share)  # noqa: PLW2901 - the same ranking with less
        if results or ranking.kind != "vector":
            rankings.append(replace(ranking, results=results[:MIN_DEPTH]))
    return replace(each, rankings=rankings)


def recalls(recorded: Recording, order: Order, share: float) -> list[float]:
    """The recall of each question among the first ten hits."""
    found = []
    for each in recorded.recorded:
        less = with_share(each, recorded.rows, order, share)
        candidates = ranked(Query(query=each.question.query), WEIGHTS, less, recorded.rows)
        found.append(recall(ranks(each.question.relevant, passages(candidates, DEPTH)), DEPTH))
    return found


def losses(by_share: Mapping[float, Sequence[float]]) -> dict[float, Mean]:
    """What each share loses against the best of the smaller ones, with its standard error. Negative: it gains."""
    lost = {}
    for share in SHARES[1:]:
        best = max((by_share[other] for other in SHARES if other < share), key=fmean)
        lost[share] = difference(best, by_share[share])
    return lost


def compare(place: Path, folded: Mapping[str, Folds]) -> None:
    """Print recall@10 at each share, for each set and order, with the largest loss in standard errors."""
    sets = {f"{name}-{fold}": each for name, folds in folded.items() for fold, each in folds.items()}
    recordings: dict[str, dict[str, Recording]] = {}
    with indexed(place, {name: each.fill for name, each in sets.items()}) as (service, tools):
        for name, each in sets.items():
            file = place / f"partial-{name}.pickle"
            of_set = recordings.setdefault(name.split("-")[0], {})
            of_set[name] = recording(file, service, tools[name], each.ask(), MAX_DEPTH)
    for name, folds in recordings.items():
        for title, order_of in ORDERS.items():
            by_share: dict[float, list[float]] = {share: [] for share in SHARES}
            for recorded in folds.values():
                for share in SHARES:
                    by_share[share] += recalls(recorded, order_of(recorded.rows), share)
            cells = "".join(f"{fmean(values):>9.3f}" for values in by_share.values())
            worst = max(lost.value / lost.error if lost.error else 0.0 for lost in losses(by_share).values())
            print(f"{name:10}{title:20}{cells}  worst {worst:+.1f} errors", flush=True)
