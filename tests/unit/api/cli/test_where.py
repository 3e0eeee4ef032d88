"""`--where` becomes the filter by metadata that its words say, with values of the declared types."""

from __future__ import annotations

from typing import Any, cast

import pytest

from api.cli.invocation import VerbFailed
from api.cli.service.local_calls import JsonRecord
from api.cli.verbs.where import metadata_filter
from foldex_client import Tool

DECLARED = {"team": "string", "year": "int", "share": "float", "open": "bool", "due": "time", "tags": "strings"}
TOOL = cast("Tool", JsonRecord(config=JsonRecord(metadata=DECLARED)))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ([], {}),
        (["team=red"], {"team": {"any": ["red"]}}),
        (["team=red", "team=blue"], {"team": {"any": ["red", "blue"]}}),
        (["team!=red"], {"team": {"not": ["red"]}}),
        (["team=2020"], {"team": {"any": ["2020"]}}),
        (["team="], {"team": {"any": [""]}}),
        (["team=a=b>c"], {"team": {"any": ["a=b>c"]}}),
        (["year>=2020", "year<2024"], {"year": {"gte": 2020, "lt": 2024}}),
        (["year=many"], {"year": {"any": ["many"]}}),
        (["share>0.5"], {"share": {"gt": 0.5}}),
        (["open=true", "open!=false"], {"open": {"any": [True], "not": [False]}}),
        (["due<=2026-01-01T00:00:00Z"], {"due": {"lte": "2026-01-01T00:00:00Z"}}),
        (["tags", "!year"], {"tags": {"exists": True}, "year": {"exists": False}}),
        (["unknown=1"], {"unknown": {"any": ["1"]}}),
    ],
)
def test_conditions_become_a_filter(where: list[str], expected: dict[str, Any]) -> None:
    assert metadata_filter(where, TOOL) == expected


@pytest.mark.parametrize(
    "where",
    [["year>=2022", "year>=2020"], ["share<1", "share<0.5"], ["tags", "!tags"], ["share=nan"], ["share>1e400"]],
)
def test_what_cannot_hold_as_it_is_written_is_refused(where: list[str]) -> None:
    with pytest.raises(VerbFailed, match=r"keep one of the two|is not finite"):
        metadata_filter(where, TOOL)


def test_a_condition_may_be_repeated() -> None:
    assert metadata_filter(["year>=2020", "year>=2020", "tags", "tags"], TOOL) == {
        "year": {"gte": 2020},
        "tags": {"exists": True},
    }


def test_a_tool_without_a_declaration_takes_texts() -> None:
    undeclared = cast("Tool", JsonRecord(config=JsonRecord()))
    assert metadata_filter(["year=2020"], undeclared) == {"year": {"any": ["2020"]}}


@pytest.mark.parametrize("where", ["", "=red", "a b=c", "!", "team~red", "!team=red"])
def test_what_is_no_condition_is_refused(where: str) -> None:
    with pytest.raises(VerbFailed, match="write KEY=VALUE"):
        metadata_filter([where], TOOL)
