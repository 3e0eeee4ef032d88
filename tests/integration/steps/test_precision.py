"""The vectors of an index keep their precision, also once a faster one can be computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from api.routes.tools import wanted_index
from schemas.content.source import FLOAT32, AnySource, LocalSource
from schemas.tool import ToolConfig
from worker.embed import models
from worker.embed.local.loading import INT8
from worker.machine.onnx import session
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.tools import NewIndex


@pytest.fixture
def folder(tmp_path: Path) -> AnySource:
    (tmp_path / "a.md").write_text("Apples.\n")
    return LocalSource(kind="local", path=str(tmp_path))


def wanted(
    resources: Resources,
    monkeypatch: pytest.MonkeyPatch,
    source: AnySource,
    *,
    fast: bool,
    config: ToolConfig,
    project: str = "precision",
) -> NewIndex:
    """What a tool would need with ONNX Runtime or without it."""
    monkeypatch.setattr(models, "_profiles", {})
    monkeypatch.setattr(session, "is_installed", lambda: fast)
    return wanted_index(project, source, config, resources)[0]


def test_an_index_keeps_its_precision_and_the_next_folder_gets_the_faster_one(
    resources: Resources, folder: AnySource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resources, "settings", resources.settings.model_copy(update={"local_source_roots": [tmp_path]}))
    plain, longer = ToolConfig(), ToolConfig(chunk_size=128)
    old = wanted(resources, monkeypatch, folder, fast=False, config=plain)
    assert old.settings.embedder.precision == FLOAT32
    first, _ = tools.create(resources.pool, old, name="", config=plain)
    assert wanted(resources, monkeypatch, folder, fast=True, config=plain).identity == old.identity
    assert wanted(resources, monkeypatch, folder, fast=True, config=longer).settings.embedder.precision == FLOAT32
    other_projects = wanted(resources, monkeypatch, folder, fast=True, config=plain, project="another")
    assert other_projects.settings.embedder.precision == INT8

    tool = tools.get(resources.pool, first)
    assert tool is not None
    assert tool.index.precision == FLOAT32

    below = tmp_path / "below"
    below.mkdir()
    other = LocalSource(kind="local", path=str(below))
    new = wanted(resources, monkeypatch, other, fast=True, config=plain)
    assert new.settings.embedder.precision == INT8
    tools.create(resources.pool, new, name="", config=plain)
    assert wanted(resources, monkeypatch, other, fast=True, config=plain).identity == new.identity
    # without the library, vectors of int8 could not be made: a new index has those that can
    assert wanted(resources, monkeypatch, other, fast=False, config=plain).settings.embedder.precision == FLOAT32

    tools.delete(resources.pool, first)
    assert wanted(resources, monkeypatch, folder, fast=True, config=plain).settings.embedder.precision == INT8


def test_a_new_index_has_the_precision_of_the_oldest_one_over_its_folder(
    resources: Resources, folder: AnySource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resources, "settings", resources.settings.model_copy(update={"local_source_roots": [tmp_path]}))
    # an older index of another model says nothing
    like = wanted(resources, monkeypatch, folder, fast=False, config=ToolConfig(), project="oldest")
    embedder = like.settings.embedder.model_copy(update={"model": "openai/m"})
    settings = like.settings.model_copy(update={"embedder": embedder})
    tools.create(resources.pool, replace(like, settings=settings), name="", config=ToolConfig())
    made = []
    # the library was missing for a while
    for fast, size, precision in ((True, 64, INT8), (False, 128, FLOAT32)):
        config = ToolConfig(chunk_size=size)
        new = wanted(resources, monkeypatch, folder, fast=fast, config=config, project="oldest")
        assert new.settings.embedder.precision == precision
        made.append(tools.create(resources.pool, new, name="", config=config)[0])
    for tool, precision in zip(made, (INT8, FLOAT32), strict=True):
        next_ = wanted(resources, monkeypatch, folder, fast=True, config=ToolConfig(chunk_size=96), project="oldest")
        assert next_.settings.embedder.precision == precision
        tools.delete(resources.pool, tool)
