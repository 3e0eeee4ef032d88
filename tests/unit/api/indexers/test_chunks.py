"""What the indexer of chunks refuses, and what it estimates."""

from __future__ import annotations

from dataclasses import replace
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
    with room.hold("a"), pytest.raises(EstimateBusy, match="try again shortly"):
        estimates.estimate_of(wanted, resources)
