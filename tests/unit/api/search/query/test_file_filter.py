"""Which files the filters of a query select, and in which form the stores are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from api.search.query.file_filter import MAX_IDS, MAX_PATTERNS, FileSelection, select_files, selection_by_patterns
from api.search.text.path_pattern import folder_of
from schemas.errors import Invalid
from schemas.queries.search import Filters
from worker.state.index import file_lookup
from worker.state.index.file_lookup import IndexedFile
from worker.vectors import MAX_FILTERABLE_BYTES

DAY_MS = 24 * 60 * 60 * 1000


def file(path: str, type_: str = "code", language: str | None = None, mtime_ms: int | None = None) -> IndexedFile:
    return IndexedFile(path, path, f"/{path}", type_, language, mtime_ms)


FOLDER = [
    file("a.py", "code", "python", 2 * DAY_MS),
    file("docs/b.md", "markdown", None, DAY_MS),
    file("docs/c/Makefile", "text", "make"),
    file("old/d.md", "markdown"),
]


def selected(
    monkeypatch: pytest.MonkeyPatch,
    given: Filters,
    allowed_ids: set[str] | None = None,
    folder: Sequence[IndexedFile] = FOLDER,
) -> FileSelection | None:
    monkeypatch.setattr(
        file_lookup, "searchable", lambda _pool, _id, prefix: [f for f in folder if f.path.startswith(prefix)]
    )
    return select_files(Mock(), Mock(), given, allowed_ids, None)


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"types": ["markdown", "py"]}, ["a.py", "docs/b.md", "old/d.md"]),
        ({"types": [".md"]}, ["docs/b.md", "old/d.md"]),
        ({"types": ["make"]}, ["docs/c/Makefile"]),
        ({"types": ["markdown"], "path": "docs/**"}, ["docs/b.md"]),
        ({"path": "./docs/*"}, ["docs/b.md", "docs/c/Makefile"]),
        ({"path": "!docs/**"}, ["a.py", "old/d.md"]),
        ({"path": "old/../old/d.md"}, []),
        # the time of a file may be unknown
        ({"modified_after": "1970-01-02T00:00:00Z"}, ["a.py", "docs/b.md"]),
        ({"modified_after": "1970-01-02T00:00:00Z", "modified_before": "1970-01-03T00:00:00Z"}, ["docs/b.md"]),
        ({"types": ["code"], "modified_after": "1970-01-02T00:00:00Z"}, ["a.py"]),
    ],
)
def test_files_are_selected_by_path_type_and_time(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], paths: list[str]
) -> None:
    filters = Filters.model_validate(given)
    assert selected(monkeypatch, filters) == FileSelection(paths)
    allowed = {"docs/b.md", "elsewhere.md"}
    assert selected(monkeypatch, filters, allowed) == FileSelection([path for path in paths if path in allowed])


def test_what_a_store_can_filter_by_selects_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (Filters(), Filters(types=["markdown", "code"])):
        assert selected(monkeypatch, given) is None
        assert selected(monkeypatch, given, {"b", "a"}) == FileSelection(["a", "b"])


def test_a_path_that_excludes_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid):
        selected(monkeypatch, Filters(path="! "))


@pytest.mark.parametrize("over", [0, 1])
def test_many_files_are_told_by_patterns_unless_some_are_not_allowed(
    monkeypatch: pytest.MonkeyPatch, over: int
) -> None:
    number = MAX_IDS + over
    folder = [file(f"docs/{each:05}.md") for each in range(number)] + [file("docs/other.py"), file("a.md")]
    ids = FileSelection([each.path for each in folder[:number]])
    given = Filters(path="docs/*.md")
    expected = FileSelection(None, ["/docs"], [".md"]) if over else ids
    assert selected(monkeypatch, given, folder=folder) == expected
    everything = {each.path for each in folder}
    assert selected(monkeypatch, given, everything, folder=folder) == expected
    fewer = everything - {"docs/00000.md"}
    assert selected(monkeypatch, given, fewer, folder=folder) == FileSelection((ids.ids or [])[1:])


@pytest.mark.parametrize("over", [0, 1])
def test_patterns_are_few_and_short(over: int) -> None:
    folders = [file(f"docs/{number}.md") for number in range(MAX_PATTERNS + over)]
    folders = [each._replace(id_path=f"/{number}/x") for number, each in enumerate(folders)]
    assert (selection_by_patterns(folders, folders, "docs/") is None) == bool(over)
    endings = [file(f"a.e{number}") for number in range(MAX_PATTERNS + over)]
    assert (selection_by_patterns([*endings, file("b.x")], endings, "") is None) == bool(over)
    long = [file("docs/a.md")._replace(id_path=f"/{'x' * (MAX_FILTERABLE_BYTES - 2 + over)}/a")]
    assert (selection_by_patterns(long, long, "docs/") is None) == bool(over)


def test_the_name_of_the_parent_is_no_literal_folder() -> None:
    assert folder_of("docs/../other/x.md") == "docs/"
