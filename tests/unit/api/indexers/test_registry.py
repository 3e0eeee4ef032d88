"""The table of indexers is whole, and its statuses are true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import pytest

from api.indexers import Subject, registry
from api.indexers.registry import DERIVED, INDEXERS, TREE, follow_config, info
from schemas.content.source import NodesSource
from schemas.derived import DerivedConfigs, TreeSearch
from schemas.tool import ToolConfig
from worker.resources import Resources
from worker.settings import LOCAL_LLM, Settings


def resources(home: Path, **given: Any) -> Resources:
    return Resources(Settings(foldex_home=home, database_url="postgresql://nowhere.invalid/none", **given))


def test_each_value_of_tree_is_answered_by_one_indexer() -> None:
    assert sorted(value for row in INDEXERS for value in row.tree) == sorted(get_args(TreeSearch))


def test_each_derived_config_has_an_indexer() -> None:
    assert [row.name for row in DERIVED] == list(DerivedConfigs.model_fields)
    assert all("enabled" in row.config.model_fields for row in DERIVED)


@pytest.mark.parametrize(
    ("model", "modules", "status"),
    [
        (LOCAL_LLM, ("json",), "available"),
        (LOCAL_LLM, ("json", "not_there"), "missing_dependency"),
        (None, ("json",), "not_configured"),
        # no tree at all can be built
        (None, ("not_there",), "not_configured"),
    ],
)
def test_an_indexer_says_what_it_lacks(
    tmp_path: Path, model: str | None, modules: tuple[str, ...], status: str
) -> None:
    row = replace(TREE, modules=modules)
    assert info(row, resources(tmp_path, default_llm_model=model)).status == status


@pytest.mark.parametrize(
    ("before", "after", "calls"),
    [
        (False, False, []),
        (False, True, ["build"]),
        # what a changed config asks for may be another build
        (True, True, ["build"]),
        (True, False, ["drop"]),
    ],
)
def test_a_changed_config_builds_what_it_enables_and_drops_what_it_no_longer_does(
    monkeypatch: pytest.MonkeyPatch, before: bool, after: bool, calls: list[str]
) -> None:
    indexer = Mock()
    monkeypatch.setattr(registry, "DERIVED", [replace(TREE, indexer=indexer)])
    old, new = (ToolConfig.model_validate({"raptor": {"enabled": enabled}}) for enabled in (before, after))
    follow_config(Mock(), Subject("p", NodesSource(node_id="n"), new), old)
    assert [name for name, *_ in indexer.method_calls] == calls
