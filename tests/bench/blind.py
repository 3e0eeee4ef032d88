"""What keyed hashes cost in a store that others operate: bytes and time of a write and a query, beside readable rows.

The store is the fake, which ranks by BM25 as documented. Both forms must rank alike, so recall is equal.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from uuid import UUID

import numpy as np
import orjson

from tests.bench import keywords
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.state.index.chunks import PlacedChunk
from worker.tokens.keywords import keywords_of
from worker.vectors import Leg, Ranked, VectorRow
from worker.vectors.blind import BlindKey, Blinds
from worker.vectors.turbopuffer import TurbopufferStore
from worker.vectors.turbopuffer_rows import BlindRows, ReadableRows, RowForm, upsert_body

#: Chunks, and dimensions of their vectors.
NUMBER, DIMENSIONS = 3_000, 1536
#: Rows of one request.
BATCH = 500
KEY = BlindKey.of("a key of the benchmarks")


def run(_place: Path) -> None:
    placed = list(islice(keywords._chunks(), NUMBER))
    rows = _rows(placed)
    forms: dict[str, RowForm] = {"plain": ReadableRows(), "blind": BlindRows(Blinds(KEY).of("bench"))}
    sizes = {name: _measure_bodies(name, form, rows) for name, form in forms.items()}
    print(f"bytes of blind rows are {sizes['blind'] / sizes['plain']:.3f} times those of plain ones")
    with FakeTurbopuffer() as fake:
        stores = {
            name: TurbopufferStore(fake.api_key, region="", base_url=fake.url, has_keywords=True, text_key=key)
            for name, key in (("plain", None), ("blind", KEY))
        }
        for name, store in stores.items():
            for start in range(0, len(rows), BATCH):
                store.write(name, DIMENSIONS, rows[start : start + BATCH])
        _compare(stores, placed)


def _rows(placed: Sequence[tuple[str, PlacedChunk]]) -> list[VectorRow]:
    random = np.random.default_rng(0)
    return [
        VectorRow(
            chunk.id,
            random.standard_normal(DIMENSIONS, dtype=np.float32),
            {
                "file_node_id": str(chunk.file_id),
                "file_id_path": f"/{path}",
                "file_name": path.rpartition("/")[2],
                "file_type": "code",
                "content_hash": f"sha256:{chunk.id.hex}{chunk.id.hex}",
                "chunk_id": str(chunk.id),
                "language": chunk.language,
                "symbol": chunk.chunk.symbol,
                "node_type": chunk.chunk.node_type,
                "scope": chunk.chunk.scope,
                "level": 0,
            },
            keywords_of(path, chunk.chunk.context, chunk.chunk.text, "en"),
        )
        for path, chunk in placed
    ]


def _measure_bodies(name: str, form: RowForm, rows: Sequence[VectorRow]) -> int:
    total, started = 0, time.process_time()
    for start in range(0, len(rows), BATCH):
        body = upsert_body(form, rows[start : start + BATCH], DIMENSIONS, has_keywords=True)
        total += len(orjson.dumps(body))
    spent = (time.process_time() - started) / len(rows)
    print(f"{name}: {total / len(rows):,.0f} bytes and {spent * 1e6:.0f} µs of processor time a chunk")
    return total


def _rounded(ranked: Ranked) -> list[tuple[float, str]]:
    """Rows and scores, whose last digits depend on the order of a sum."""
    return sorted((round(row.value, 6), row.id) for row in ranked)


def _compare(stores: dict[str, TurbopufferStore], placed: Sequence[tuple[str, PlacedChunk]]) -> None:
    alike = asked = 0
    seconds: dict[str, list[float]] = {name: [] for name in stores}
    for kind, items in keywords.known_items(placed).items():
        found: dict[str, int] = dict.fromkeys(stores, 0)
        for query, wanted in items:
            legs = [Leg(10, keywords=query, field="text"), Leg(10, keywords=query, field="code")]
            answers = {}
            for name, store in stores.items():
                started = time.perf_counter()
                answers[name] = store.search(name, legs)
                seconds[name].append(time.perf_counter() - started)
                found[name] += any(UUID(id_) in wanted for ranked in answers[name] for id_ in ranked.ids)
            plain, blind = ([_rounded(ranked) for ranked in answers[name]] for name in ("plain", "blind"))
            alike += plain == blind
            asked += 1
        recall = ", ".join(f"{name} {number / len(items):.3f}" for name, number in found.items())
        print(f"recall at 10 of {len(items)} queries by {kind}: {recall}")
    times = ", ".join(f"{name} {statistics.median(each) * 1000:.1f} ms" for name, each in seconds.items())
    print(f"{alike} of {asked} queries have the same rows and scores; median of a query: {times}")
