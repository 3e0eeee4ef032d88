"""A grep searches only files that its caller resolved, of those that may be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from api.http.sight import SeenIndex
from api.search.grep import scope
from api.search.text.visibility import VisibleFiles
from schemas.queries.grep import Grep
from worker.resources import Resources

A, B, C = (UUID(int=number) for number in range(3))


@pytest.mark.parametrize(
    ("visible", "only", "taken"),
    [(None, None, [A, B, C]), (None, [A, B], [A, B]), ([B, C], None, [B, C]), ([B, C], [A, B], [B]), ([C], [A], [])],
)
def test_files_that_are_given_are_searched_if_they_may_be_read(
    monkeypatch: pytest.MonkeyPatch, visible: list[UUID] | None, only: list[UUID] | None, taken: list[UUID]
) -> None:
    seen = None if visible is None else VisibleFiles(frozenset(visible), frozenset(), ())
    monkeypatch.setattr(scope, "visible_files", lambda *_: seen)
    resources = cast("Resources", SimpleNamespace(pool=None, settings=SimpleNamespace(search_seconds=1)))
    index, request = cast("SeenIndex", SimpleNamespace(id=A)), Grep(pattern="x")
    given = None if only is None else frozenset(only)
    search = scope.text_search(resources, index, request, None, only=given)
    assert [each for each in (A, B, C) if search.takes(each)] == taken
