"""An id that no URL can hold as a part of its path is refused when something gets it."""

from __future__ import annotations

from typing import Any

import click
import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from api.cli.keys_and_grants import create_key
from api.routes.content import nodes, uploads
from api.routes.search.whole_tools import whole_tool
from schemas.content.node import NewNode
from schemas.errors import Invalid
from schemas.ids import NewId
from schemas.tool import NewTool

WRONG = ["team/a", "/team", "team/", "/", ".", "..", "a\0b", "half \ud800 pair"]
RIGHT = ["team-a", "team a", "Größe", "a.b", "...", "a?b#c", "100%", "a%2Fb", "a\\b", "~", "日本"]


def made_by_a_tool(chosen: str) -> Any:
    return NewTool(project_id=chosen, node_id="n").project_id


def made_by_a_node(chosen: str) -> Any:
    return NewNode(id=chosen, name="a", type="folder").id


MAKERS = [made_by_a_tool, made_by_a_node, TypeAdapter(NewId).validate_python]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("chosen", WRONG)
def test_what_no_address_can_hold_is_refused(make: Any, chosen: str) -> None:
    with pytest.raises(ValidationError):
        make(chosen)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("chosen", RIGHT)
def test_all_else_is_taken(make: Any, chosen: str) -> None:
    assert make(chosen) == chosen


@pytest.mark.parametrize("chosen", WRONG)
def test_neither_a_key_nor_a_search_makes_such_a_project(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    with pytest.raises(click.UsageError, match="PROJECT_ID"):
        create_key.callback(chosen, "", as_json=False)  # type: ignore[misc]
    monkeypatch.setattr("api.routes.search.whole_tools.tools.over_whole", lambda *_: None)
    with pytest.raises(Invalid, match="cannot be made"):
        whole_tool(_Resources(), chosen, None, None)  # type: ignore[arg-type]


class _Resources:
    pool = None


def test_each_route_that_makes_nodes_checks_the_project() -> None:
    routes = [route for router in (nodes.router, uploads.router) for route in router.routes]
    makes = [route for route in routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())]
    assert makes
    for route in makes:
        (project,) = [each for each in route.dependant.path_params if each.name == "project_id"]
        assert project.validate("..", {}, loc=("path",))[1], route.path
