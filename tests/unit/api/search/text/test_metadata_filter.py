"""Values of metadata count as their declared types, and numbers and times are compared exactly."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest

from api.search.text import metadata_filter
from schemas.queries.metadata import MetadataKind, MetadataView
from worker.state.pool import Pool
from worker.state.search import metadata
from worker.state.search.metadata import Held

NOON = "2026-01-01T12:00:00Z"


def passes(monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, value: Any, condition: dict[str, Any]) -> bool:
    held = [Held([value], None, ["node"])]
    monkeypatch.setattr(metadata, "nodes_by_values", lambda *_: held)
    view = MetadataView(declared={"key": kind})
    return bool(metadata_filter.node_ids_of(cast("Pool", None), UUID(int=1), view, {"key": condition}))


@pytest.mark.parametrize(
    ("kind", "value", "condition"),
    [
        ("int", 2**53 + 1, {"gt": 2**53}),
        ("int", 2020, {"gte": 2019.5, "lt": 2020.5}),
        ("int", 2020.0, {"any": [2020]}),
        ("float", 1, {"any": [1.0]}),
        ("time", "2026-01-01T13:00:00+01:00", {"any": [NOON]}),
        ("time", "2026-01-01T12:00:00.000001Z", {"gt": NOON}),
        ("bool", False, {"exists": True}),
        ("string", "", {"exists": True}),
        ("strings", [], {"exists": True, "not": ["a"]}),
    ],
)
def test_these_pass(monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, value: Any, condition: dict[str, Any]) -> None:
    assert passes(monkeypatch, kind, value, condition)


@pytest.mark.parametrize(
    ("kind", "value", "condition"),
    [
        ("int", 2**53, {"gte": 2**53 + 1}),
        ("int", True, {"any": [1]}),
        ("bool", 1, {"any": [True]}),
        ("int", 2020.5, {"exists": True}),
        ("time", "2026-01-01T12:00:00", {"exists": True}),
        ("time", "2026-02-30T12:00:00Z", {"exists": True}),
        ("time", "2026-01-01T12:00:00+99:00", {"exists": True}),
        ("time", "0001-01-01T00:00:00+23:00", {"exists": True}),
        ("time", "２０２６-01-01T12:00:00Z", {"exists": True}),  # noqa: RUF001 - digits of another script
        ("strings", "a", {"any": ["a"]}),
        ("string", ["a"], {"any": ["a"]}),
        ("strings", ["a"], {"all": ["a", "b"]}),
    ],
)
def test_these_do_not(
    monkeypatch: pytest.MonkeyPatch, kind: MetadataKind, value: Any, condition: dict[str, Any]
) -> None:
    assert not passes(monkeypatch, kind, value, condition)
