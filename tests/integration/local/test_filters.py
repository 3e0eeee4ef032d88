"""Stores get the files that filters select one by one or, if there are many, by folders and extensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from psycopg.sql import SQL

from api.http.sight import SeenIndex, seen
from api.search.query import file_filter
from api.search.query.filters import ResolvedFilters, resolve_filters
from schemas.content.acl import EVERYTHING
from schemas.queries.search import Filters
from tests.service import Service
from worker.resources import Resources
from worker.state.index import tools
from worker.state.queries import load
from worker.vectors import Leg

FILES = ("a.py", "b.PY", "c.md", "d", "sub/e.py", "sub/deep/f.py", "sub/deep/g.md", "subs/h.py", "x.py/i.md")


@pytest.fixture(scope="module")
def index(running: Service, resources: Resources, root: Path) -> SeenIndex:
    for name in FILES:
        (root / "many" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "many" / name).write_text(f"chosen = {name!r}\n")
    tool = running.local_tool(root / "many")
    running.wait(tool)
    found = tools.index_of_tool(resources.pool, UUID(tool))
    assert found is not None
    return seen(found, EVERYTHING)


def passing(resources: Resources, index: SeenIndex, filters: ResolvedFilters) -> list[list[str]]:
    """The paths of the chunks that pass the filters in the store, and in Postgres."""
    store = resources.store_of(index)
    vector = np.ones(index.settings.embedder.dimensions, np.float32)
    (found,) = store.search(index.namespace, [Leg(100, vector=vector, conditions=filters.conditions)])
    chunk = SQL(
        "SELECT c.id::text, f.path FROM chunk c JOIN search_index_file f ON f.id = c.file_id WHERE c.index_id = "
    )
    rules = SQL("%(index_id)s AND {file_filters} AND {chunk_filters}").format(**load("fragments"))
    with resources.pool.connection() as connection:
        rows: dict[str, str] = dict(
            connection.execute(chunk + rules, {**filters.values, "index_id": index.id}).fetchall()
        )
    return [sorted(rows[each.id] for each in found), sorted(rows.values())]


@pytest.mark.parametrize(
    ("filters", "told", "expected"),
    [
        ({"path": "**"}, (None, None), FILES),
        ({"path": "sub/**"}, (["/sub"], None), ("sub/deep/f.py", "sub/deep/g.md", "sub/e.py")),
        ({"path": "sub/**/*.py"}, (["/sub"], [".py"]), ("sub/deep/f.py", "sub/e.py")),
        (
            {"path": "!**/*.md", "types": ["py"]},
            (None, [".PY", ".py"]),
            tuple(f for f in FILES if "py" in f.lower()[-2:]),
        ),
        ({"types": ["md"]}, (None, [".md"]), ("c.md", "sub/deep/g.md", "x.py/i.md")),
        ({"types": ["markdown"]}, None, ("c.md", "sub/deep/g.md", "x.py/i.md")),
        # all below a folder of that name too
        ({"path": "*.py"}, ..., ("a.py", "sub/deep/f.py", "sub/e.py", "subs/h.py", "x.py/i.md")),
    ],
)
def test_many_files_are_chosen_as_if_each_was_named(
    resources: Resources,
    index: SeenIndex,
    monkeypatch: pytest.MonkeyPatch,
    filters: dict[str, Any],
    told: Any,
    expected: tuple[str, ...],
) -> None:
    named = resolve_filters(resources.pool, index, Filters(**filters))
    monkeypatch.setattr(file_filter, "MAX_IDS", 0)
    shortly = resolve_filters(resources.pool, index, Filters(**filters))
    assert passing(resources, index, shortly) == passing(resources, index, named) == [sorted(expected)] * 2
    if told is None:
        assert named.files is shortly.files is None
    elif told is ...:
        assert named.files == shortly.files
    else:
        assert shortly.files == file_filter.FileSelection(None, *told)
