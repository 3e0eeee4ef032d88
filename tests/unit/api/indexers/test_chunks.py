"""What the indexer of chunks refuses, and what it estimates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from api.http.shares import ESTIMATES
from api.indexers import chunks, estimates
from schemas.content.source import LocalSource, NodesSource, S3Source
from schemas.errors import EstimateBusy, Invalid
from schemas.tool import ToolConfig
from worker.settings import LOCAL_MODEL
from worker.state.index import tools
from worker.state.index.statuses import TaskOfTool

#: Long, so that the duration of a test does not matter.
ELAPSED = timedelta(days=10)


def remaining(**changes: Any) -> float | None:
    """The estimate for four files of 1,000 bytes, of which a task has done one, unless `changes` say otherwise."""
    row = {"finished_at": None, "worked_from": datetime.now(UTC) - ELAPSED, "worked_files": 1, "worked_bytes": 1_000}
    row |= {"total_files": 4, "indexed_files": 1, "skipped_files": 0, "failed_files": 0, "vectors_due": 0}
    return chunks._eta(TaskOfTool.model_construct(**{**row, "total_bytes": 4_000, "done_bytes": 1_000, **changes}))


def test_the_remaining_time_goes_by_the_speed_so_far() -> None:
    seconds = ELAPSED.total_seconds()
    assert remaining() == pytest.approx(3 * seconds, rel=1e-3)
    # what earlier tasks did, or was skipped or failed, is neither left nor work of this one
    assert remaining(indexed_files=2, done_bytes=2_000) == pytest.approx(2 * seconds, rel=1e-3)
    assert remaining(skipped_files=1, failed_files=1, done_bytes=3_000) == pytest.approx(seconds, rel=1e-3)
    assert remaining(indexed_files=5, done_bytes=5_000) == 0


@pytest.mark.parametrize(
    "changes", [{"finished_at": "now"}, {"worked_from": None}, {"worked_files": 0, "worked_bytes": 0}]
)
def test_no_time_is_told_that_is_not_known(changes: dict[str, Any]) -> None:
    assert remaining(**changes) is None


def test_the_remaining_time_of_vectors_goes_by_those_that_were_embedded() -> None:
    seconds, since = ELAPSED.total_seconds(), datetime.now(UTC) - ELAPSED
    assert remaining(vectors_due=30, embedded_chunks=10, searchable_at=since) == pytest.approx(3 * seconds, rel=1e-3)
    # words come first, and nothing is embedded yet
    assert remaining(vectors_due=30, embedded_chunks=10, searchable_at=None) is None
    assert remaining(vectors_due=30, embedded_chunks=0, searchable_at=since) is None


def words_left(**changes: Any) -> float | None:
    """As `remaining`, until all files are found by their words. None has its vectors yet."""
    row = {"finished_at": None, "started_at": datetime.now(UTC) - ELAPSED, "words_files": 1, "words_bytes": 1_000}
    row |= {"total_files": 4, "searchable_files": 1, "skipped_files": 0, "failed_files": 0, "searchable_at": None}
    row |= {"total_bytes": 4_000, "searchable_bytes": 1_000}
    return chunks._words_eta(TaskOfTool.model_construct(**{**row, **changes}))


def test_the_remaining_time_of_words_ends_once_all_are_searchable() -> None:
    seconds = ELAPSED.total_seconds()
    assert words_left() == pytest.approx(3 * seconds, rel=1e-3)
    assert words_left(searchable_files=2, searchable_bytes=2_000) == pytest.approx(2 * seconds, rel=1e-3)
    for changes in ({"searchable_at": "now"}, {"finished_at": "now"}, {"started_at": None}):
        assert words_left(**changes) is None
    assert words_left(words_files=0, words_bytes=0) is None


@pytest.mark.parametrize(
    ("words", "seconds", "shown"), [(4.6, 4.4, 4.4), (4.4, 4.6, 4.4), (None, 4.4, None), (4.6, None, 4.6)]
)
def test_words_are_there_no_later_than_the_run_ends(
    words: float | None, seconds: float | None, shown: float | None
) -> None:
    assert chunks._no_later(words, seconds) == shown


def test_token_bounds_may_be_equal_but_not_swapped() -> None:
    chunks._check_bounds(ToolConfig(min_token_count=5, max_token_count=5))
    with pytest.raises(Invalid, match="max_token_count is below min_token_count"):
        chunks._check_bounds(ToolConfig(min_token_count=6, max_token_count=5))


@pytest.mark.parametrize(
    ("config", "remedy"), [(ToolConfig(auto_reindex=True), "use `watch`"), (ToolConfig(watch=True), "use `every`")]
)
def test_a_source_is_followed_only_in_a_way_that_it_has(config: ToolConfig, remedy: str) -> None:
    possible = NodesSource(node_id="n") if config.auto_reindex else LocalSource(kind="local", path="/f")
    chunks._check_following(possible, config, has_event_queue=False)
    bucket = S3Source(kind="s3", bucket="bucket", prefix="")
    with pytest.raises(Invalid, match=remedy):
        chunks._check_following(bucket, config, has_event_queue=False)
    if config.watch:
        chunks._check_following(bucket, config, has_event_queue=True)


def test_only_so_many_estimates_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    room = replace(ESTIMATES, total=1, each=1, seconds=0.01)
    monkeypatch.setattr(estimates, "ESTIMATES", room)
    monkeypatch.setattr(tools, "find", lambda *_: None)
    wanted: Any = SimpleNamespace(project_id="b", settings=SimpleNamespace(embedder=SimpleNamespace(model=LOCAL_MODEL)))
    resources: Any = SimpleNamespace(pool=None, settings=SimpleNamespace(embedding_batch_size=1))
    with room.held("a"), pytest.raises(EstimateBusy, match="try again shortly"):
        estimates.estimate_of(wanted, resources)
