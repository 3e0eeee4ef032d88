"""Which fields the hits of an answer have."""

from __future__ import annotations

import json
from typing import Any, get_args
from uuid import UUID

import pytest
from pydantic import ValidationError

from api.http.responses import answer_json
from schemas.queries.across import Across, AcrossAnswer, PlacedHit
from schemas.queries.hit_fields import HitFieldName
from schemas.queries.search import Answer, Coverage, Hit, Query

ID = UUID(int=7)
#: The fields of a hit without any option.
CONTRACT = {
    *("chunk_id", "chunk_text", "score", "distance", "file_node_id", "file_id", "file_id_path", "file_path"),
    *("file_name", "file_type", "title", "url", "json_pointer", "chunk_index", "total_chunks", "content_hash"),
    *("start_line", "end_line", "start_char", "end_char", "language", "symbol", "node_type", "scope", "level"),
    *("embedded", "stale", "also_in"),
}
FOUND: dict[str, Any] = {
    "query": "x", "mode": "hybrid", "total_results": 2, "took_ms": 1,
    "coverage": Coverage(indexed_files=1, total_files=1)
}  # fmt: skip # a line each says nothing


def hit(**fields: Any) -> Hit:
    values = dict.fromkeys(Hit.model_fields)
    values |= dict.fromkeys(("chunk_id", "file_id"), ID)
    values |= dict.fromkeys(
        ("chunk_text", "file_node_id", "file_id_path", "file_path", "file_name", "content_hash"), "a"
    )
    counts = ("score", "chunk_index", "total_chunks", "start_line", "end_line", "start_char", "end_char", "level")
    values |= dict.fromkeys(counts, 1)
    return Hit(
        **{**values, "embedded": True, "whole": False, "stale": False, "matched_queries": [], "also_in": [], **fields}
    )


def shown(**request: Any) -> list[dict[str, Any]]:
    answer = Answer(**FOUND, results=[hit(), hit(page=2, metadata={"team": "red"})])
    if "project_id" not in request:
        return list(json.loads(answer_json(Query(**request), answer))["results"])
    placed = [PlacedHit(**dict(each), tool_id=ID) for each in answer.results]
    across = AcrossAnswer(**FOUND, notes=[], tools=[], results=placed)
    return list(json.loads(answer_json(Across(**request), across))["results"])


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        ({"query": "x"}, set()),
        ({"queries": ["x"]}, {"matched_queries"}),
        ({"query": "x", "explain": True, "group_by_file": True}, {"explain", "pieces"}),
        ({"query": "x", "before": 1}, {"before"}),
        ({"query": "x", "after": 1}, {"after"}),
        ({"query": "x", "include_unembedded": True}, {"whole"}),
        ({"query": "x", "project_id": "p", "tool_ids": [ID]}, {"tool_id"}),
        ({"query": "x", "project_id": "p", "paths": ["/a"]}, {"tool_id", "whole"}),
    ],
)
def test_a_hit_has_the_fields_of_the_contract_and_of_its_options(request_: dict[str, Any], more: set[str]) -> None:
    plain, paged = shown(**request_)
    assert plain.keys() == CONTRACT | more
    assert paged.keys() == {*CONTRACT, *more, "page", "metadata"}


def test_fields_choose_what_a_hit_has_also_if_it_is_null() -> None:
    assert shown(query="x", fields=["title", "file_path", "page", "explain"]) == [
        {"title": None, "file_path": "a", "page": page, "explain": None} for page in (None, 2)
    ]
    assert shown(query="x", project_id="p", paths=["/a"], fields=["tool_id"]) == [{"tool_id": str(ID)}] * 2


def test_an_unknown_field_is_refused_with_the_known_ones() -> None:
    for fields in (["chunk_txt"], []):
        with pytest.raises(ValidationError) as refused:
            Query(query="x", fields=fields)
    with pytest.raises(ValidationError) as refused:
        Query(query="x", fields=["tool_id"])
    assert all(f"'{name}'" in str(refused.value) for name in Hit.model_fields)


def test_every_field_of_a_hit_can_be_chosen() -> None:
    assert set(get_args(HitFieldName)) == Hit.model_fields.keys()
