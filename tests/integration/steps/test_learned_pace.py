"""A process that knows nothing of a provider waits a moment for its answer before it writes words alone."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from schemas.content.document import FileContent
from schemas.errors import EmbeddingError, EmbeddingUnauthorized, EmbeddingUnavailable, SliceOver
from tests.integration.steps.lagging import AWAY, Late, Provider
from tests.integration.steps.site import FILES, write
from tests.integration.steps.test_words_first import Counting
from tests.unit.worker.embed.rates import UNLIMITED
from worker.embed import Vectors, batching
from worker.embed.rate_limit import RateBudget
from worker.index import late as lateness
from worker.index.pipeline import MIN_CLAIM_FILES
from worker.index.run import IndexRun

CLAIMS = 4


@pytest.fixture
def large(late: Late) -> Late:
    """A folder of several claims."""
    for added in range(FILES, CLAIMS * MIN_CLAIM_FILES):
        write(late.site.folder, added, f"One more file, {added}, that tells of apples.")
    late.site.cancel()
    late.again()
    return late


def asking(late: Late, left_bytes: float = 1 << 30) -> IndexRun:
    """A worker that asks a provider, without Redis."""
    budget = RateBudget("numbers", late.site.project, UNLIMITED, redis_url="redis://127.0.0.1:1", concurrency=1)
    return replace(late.worker(), budget=budget, left_bytes=left_bytes)


def test_files_of_a_provider_that_answers_at_once_are_written_once(large: Late) -> None:
    run = asking(large)
    store = Counting(run.store)
    large.slice(replace(run, store=store))
    assert store.upserts == [True] * (CLAIMS * MIN_CLAIM_FILES)
    assert large.site.refresh()
    large.prove()


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("error", [AWAY, EmbeddingUnauthorized("wrong key")])
def test_a_provider_that_fails_at_first_keeps_no_words_back(
    large: Late, error: EmbeddingError, is_listed: bool
) -> None:
    large.provider.away = error
    paths = {path for (path,) in large.columns("path")}
    ended: list[type[BaseException] | None] = []
    for _ in range(CLAIMS):
        run = asking(large, 1 << 30 if is_listed else math.inf)
        try:
            large.slice(run)
            ended.append(None)
        except (EmbeddingError, SliceOver) as raised:
            ended.append(type(raised))
        large.site.expire(run)
        if large.by_word("apples") == paths:
            break
    assert large.by_word("apples") == paths
    # what is listed later gets its words too, before anyone waits for the provider
    assert {*ended} == {type(error) if is_listed else SliceOver}
    large.end()


def test_a_local_model_is_not_asked_before_all_words_are_there(large: Late) -> None:
    large.provider.away = AWAY
    run = large.worker()
    with pytest.raises(EmbeddingUnavailable):
        large.slice(run)
    assert large.by_word("apples") == {path for (path,) in large.columns("path")}
    large.site.expire(run)
    large.end()


class Slow(Provider):
    """A provider that takes longer than words usually wait."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        time.sleep(0.5)
        return super().embed(texts)


@pytest.mark.parametrize("is_known", [True, False])
def test_words_wait_for_vectors_as_long_as_reading_their_files_took(
    late: Late, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    monkeypatch.setattr(lateness, "LATE_SECONDS", 0.05 if is_known else 60.0)
    monkeypatch.setattr(lateness, "TRY_SECONDS", 0.05)
    monkeypatch.setattr(batching, "PATIENCE_SECONDS", 0.05)
    late.provider = Slow(late.provider._embedder)
    run = asking(late)
    if is_known:
        run.pace.note_answer(1_000_000, 0.001, first=0.001)
    read = run.source.read

    def slowly(*given: Any) -> FileContent:
        time.sleep(0.75)
        return read(*given)

    monkeypatch.setattr(run.source, "read", slowly)
    store = Counting(run.store)
    late.slice(replace(run, store=store))
    assert store.upserts == [True] * FILES
    assert late.site.refresh()
    late.prove()
