"""What `--json` prints: for each verb a model of the client library."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict

from foldex_client import Status, Tool
from foldex_client.estimate import Estimate
from foldex_client.models import Answer, CallGraph, File, GrepAnswer, Impact, ModelInfo, RaptorStatus, Symbol, TreeNode


class Check(BaseModel):
    """One check of `foldex doctor`, which no call of the API answers."""

    model_config = ConfigDict(extra="forbid")
    what: str
    ok: bool
    detail: str


class Address(BaseModel):
    """What `foldex open` opened."""

    model_config = ConfigDict(extra="forbid")
    url: str


class Deleted(BaseModel):
    """What `foldex delete` did."""

    model_config = ConfigDict(extra="forbid")
    tool_id: str
    status: str


#: A model, or in a list the model of each of the document's `items`.
Shape = type[BaseModel] | list[type[BaseModel]]

#: Run in the folder of a tool called docs, beside one called brief.
DOCUMENTS: dict[tuple[str, ...], Shape] = {
    ("index", "."): Status,
    ("index", ".", "--no-wait"): Status,
    ("index", ".", "--dry-run"): Estimate,
    ("estimate", "."): Estimate,
    ("search", "vacation"): Answer,
    ("search", "vacation", "--types", "pdf"): Answer,
    ("search", "vacation", "-C", "1", "--mode", "keyword"): Answer,
    ("grep", "holiday"): GrepAnswer,
    ("grep", "nowhere-at-all"): GrepAnswer,
    ("symbols", "make_token"): [Symbol],
    ("symbols", "missing"): [Symbol],
    ("outline", "src"): [Symbol],
    ("callers", "sign"): CallGraph,
    ("callers", "missing"): CallGraph,
    ("callees", "make_token", "--depth", "2"): CallGraph,
    ("impact", "make_token"): Impact,
    ("status",): [Status],
    ("status", "docs"): Status,
    ("files",): [File],
    ("tools",): [Tool],
    ("models",): [ModelInfo],
    ("models", "--check"): [ModelInfo],
    ("doctor",): [Check],
    ("open", "--print"): Address,
    ("retry", "docs"): Status,
    ("reindex", "docs", "--wait"): Status,
    ("cancel", "docs"): Status,
    ("delete", "brief", "--yes"): Deleted,
}
#: The same of the verbs over a tree, each with the tool's name after it.
TREE_DOCUMENTS: dict[tuple[str, ...], Shape] = {
    ("tree", "status"): RaptorStatus,
    ("tree", "build"): RaptorStatus,
    ("tree", "show"): [TreeNode],
}


def items_of(printed: str, shape: Shape) -> list[BaseModel]:
    """What a verb printed, which has all fields of its model and no other."""
    document = json.loads(printed)
    if isinstance(shape, list):
        assert document.keys() == {"items"}
    items = [
        shape[0].model_validate(each) if isinstance(shape, list) else shape.model_validate(each)
        for each in (document["items"] if isinstance(shape, list) else [document])
    ]
    assert [name for item in items for name in _unknown(item)] == []
    return items


def _unknown(value: object) -> list[str]:
    """The fields that no model knows."""
    if isinstance(value, list):
        return [name for each in value for name in _unknown(each)]
    if not isinstance(value, BaseModel):
        return []
    known = [name for field in type(value).model_fields for name in _unknown(getattr(value, field))]
    return [*(value.model_extra or {}), *known]
