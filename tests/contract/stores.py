"""Vector stores of every kind, rows to write into them, and hits by row number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from schemas.errors import StoreError
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.tokens.keywords import Keywords, keywords_of
from worker.vectors import Condition, Leg, Ranked, Value, Vector, VectorRow, VectorStore
from worker.vectors.blind import GROUPS, BlindKey
from worker.vectors.lance.compaction import Thresholds
from worker.vectors.lance.store import LanceStore
from worker.vectors.turbopuffer import TurbopufferStore

D = 8
#: Makes every call of `optimize` compact.
ALWAYS = Thresholds(fragments=0, rows_while_writing=0)
REAL_KEY = os.environ.get("TURBOPUFFER_API_KEY", "")
HAS_KEY = REAL_KEY.startswith("tpuf_") and not os.environ.get("TURBOPUFFER_BASE_URL")
live = pytest.mark.skipif(not HAS_KEY, reason="set TURBOPUFFER_API_KEY to a key of the real service to run")
WITHOUT_KEYWORDS = ["lance", "fake", "blind", pytest.param("live", marks=live)]
WITH_KEYWORDS = [
    *("lance-keywords", "fake-keywords", "blind-keywords", "held-keywords", "read-keywords"),
    pytest.param("live-keywords", marks=live),
]


class SearchedTwice(LanceStore):
    """Repeats each search, so that the vectors in memory answer the second one."""

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[Ranked]:
        first, second = super().search(namespace, legs), super().search(namespace, legs)
        for before, after in zip(first, second, strict=True):
            assert numbers(before) == numbers(after)
            assert [hit.value for hit in before] == pytest.approx([hit.value for hit in after], abs=1e-6)
        return second


class WordsInMemory(LanceStore):
    """Reads rows and their words into memory before each search."""

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[Ranked]:
        warmed(self, namespace)
        return super().search(namespace, legs)


def warmed(store: LanceStore, namespace: str) -> None:
    """Search until the rows of a namespace and their words are in memory."""
    for number in range(4):
        with suppress(StoreError):  # of a namespace with other dimensions
            LanceStore.search(store, namespace, [Leg(1, vector=axis(0, 0.1 * number))])
    store._searcher()._background.wait()


def make(kind: str, directory: Path, fake: FakeTurbopuffer) -> VectorStore:
    name, _, keywords = kind.partition("-")
    if name == "lance":
        return LanceStore(directory, has_keywords=bool(keywords), thresholds=ALWAYS)
    if name == "held":
        # words in memory have other scores than Lance's after an edit
        return SearchedTwice(directory, has_keywords=bool(keywords), thresholds=ALWAYS, word_bytes=0)
    if name == "read":
        return WordsInMemory(directory, has_keywords=bool(keywords), thresholds=ALWAYS)
    if name in {"fake", "blind"}:
        key = BlindKey.of("a key of the tests") if name == "blind" else None
        return TurbopufferStore(
            fake.api_key, region="nowhere", base_url=fake.url, has_keywords=bool(keywords), text_key=key
        )
    region = os.environ.get("TURBOPUFFER_REGION", "gcp-us-central1")
    return TurbopufferStore(REAL_KEY, region=region, has_keywords=bool(keywords))


def axis(number: int, tilt: float = 0.0) -> Vector:
    vector = np.zeros(D, dtype=np.float32)
    vector[number] = 1.0
    vector[(number + 1) % D] = tilt
    return vector


def words(text: str, language: str = "en") -> Keywords:
    return keywords_of("", "", text, language)


def row(number: int, vector: Vector | None = None, keywords: str | None = None, **attributes: Value) -> VectorRow:
    given = None if keywords is None else words(keywords)
    return VectorRow(UUID(int=number), vector, {"file_name": f"{number}.md", "level": 0, **attributes}, given)


def of_file(name: str | None) -> dict[str, Value]:
    """All attributes of a row's file, which a patch changes together."""
    return {**dict.fromkeys(GROUPS["file_terms"]), "file_name": name}


def numbers(found: Ranked) -> list[int]:
    return [UUID(hit.id).int for hit in found]


def near(store: VectorStore, space: str, vector: Vector, *conditions: Condition, limit: int = 10) -> list[int]:
    return numbers(store.search(space, [Leg(limit, vector=vector, conditions=conditions)])[0])


def about(store: VectorStore, space: str, text: str, *conditions: Condition, limit: int = 10) -> list[int]:
    return numbers(store.search(space, [Leg(limit, keywords=text, conditions=conditions)])[0])


def coded(store: VectorStore, space: str, text: str, *conditions: Condition) -> list[int]:
    return numbers(store.search(space, [Leg(10, keywords=text, field="code", conditions=conditions)])[0])
