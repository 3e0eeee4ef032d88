"""What the indexer of chunks refuses, and what it estimates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import BoundedSemaphore
from typing import Any

import pytest

from api.indexers import chunks, estimates
from api.indexers.chunks import MIN_ETA_PROGRESS
from schemas.errors import EstimateBusy, Invalid
from schemas.source import LocalSource, NodesSource, S3Source
from schemas.tool import ToolConfig

#: Long, so that the duration of a test does not matter.
ELAPSED = timedelta(days=10)


def remaining(progress: float, **changes: Any) -> float | None:
    started = datetime.now(UTC) - ELAPSED
    return chunks._eta({"progress": progress, "started_at": started, "finished_at": None, "listing": False} | changes)


def test_the_remaining_time_goes_by_the_speed_so_far() -> None:
    seconds = ELAPSED.total_seconds()
    assert remaining(1 / 4) == pytest.approx(3 * seconds, rel=1e-3)
    assert remaining(3 / 4) == pytest.approx(seconds / 3, rel=1e-3)
    assert remaining(MIN_ETA_PROGRESS) == pytest.approx(49 * seconds, rel=1e-3)


@pytest.mark.parametrize("changes", [{"finished_at": "now"}, {"listing": True}, {"started_at": None}])
def test_no_time_is_told_that_is_not_known(changes: dict[str, Any]) -> None:
    assert remaining(1 / 4, **changes) is None
    assert remaining(MIN_ETA_PROGRESS - 0.001) is None


def test_token_bounds_may_be_equal_but_not_swapped() -> None:
    chunks._check_bounds(ToolConfig(min_token_count=5, max_token_count=5))
    with pytest.raises(Invalid, match="max_token_count is below min_token_count"):
        chunks._check_bounds(ToolConfig(min_token_count=6, max_token_count=5))


@pytest.mark.parametrize(
    ("config", "remedy"), [(ToolConfig(auto_reindex=True), "use `watch`"), (ToolConfig(watch=True), "use `every`")]
)
def test_a_source_is_followed_only_in_a_way_that_it_has(config: ToolConfig, remedy: str) -> None:
    possible = NodesSource(node_id="n") if config.auto_reindex else LocalSource(kind="local", path="/f")
    chunks._check_following(possible, config)
    with pytest.raises(Invalid, match=remedy):
        chunks._check_following(S3Source(kind="s3", bucket="bucket", prefix=""), config)


def test_only_so_many_estimates_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "_free", BoundedSemaphore(1))
    monkeypatch.setattr(estimates, "SLOT_SECONDS", 0.01)
    with estimates._slot(), pytest.raises(EstimateBusy), estimates._slot():
        pass
    with pytest.raises(ValueError, match="failed"), estimates._slot():
        raise ValueError("failed")
    with estimates._slot():
        pass
