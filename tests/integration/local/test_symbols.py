"""Definitions and uses in code: found after indexing, updated by an edit, removed with their file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from schemas.content.document import CodeDefinition
from tests.service import TOOLS, Service, checked
from worker.state.pool import open_pool
from worker.state.search import symbols as symbols_of

#: Older than the age at which stamps are trusted.
LONG_AGO = 1_600_000_000

SHAPES = """
class Shape(Base):
    def area(self):
        return compute(self.size)


def draw(shape):
    canvas.paint(shape.area())
"""
PAINT = """
from shapes import Shape

def draw_all(shapes):
    for shape in shapes:
        draw(shape)
"""

CALLS = {
    "store.py": """
class Store:
    def run(self):
        return load(self)

def load(store):
    return parse(read_bytes(store))

def parse(data):
    return _checked(data)

def _checked(data):
    return data
""",
    "jobs.py": """
from store import load, parse

class Job:
    def run(self):
        return _checked(load(self))

def _checked(data):
    return data or again(data)

def again(data):
    return parse(_checked(data))

def main():
    Job().run()

main()
""",
    "gauge.py": """
class Gauge:
    @property
    def level(self):
        return clamped(self._level)

    @level.setter
    def level(self, value):
        log(value)
        self._level = clamped(clamped(value))
""",
    "many.py": "".join(f"def many_{n}():\n    popular()\n" for n in range(510)),
}


@pytest.fixture(scope="module")
def calls(running: Service, root: Path) -> str:
    """A tool over code with ambiguous names and circular calls."""
    return index_texts(running, root / "calls", CALLS)


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    made = root / "code"
    made.mkdir()
    write(made, "shapes.py", SHAPES)
    write(made, "paint.py", PAINT)
    write(made, "notes.md", "# Shape\n\nclass Shape is described here.\n")
    return made


@pytest.fixture(scope="module")
def tool(running: Service, folder: Path) -> str:
    made = running.local_tool(folder)
    running.wait(made)
    return made


def write(folder: Path, name: str, text: str, later: int = 0) -> None:
    (folder / name).write_text(text)
    os.utime(folder / name, (LONG_AGO + later, LONG_AGO + later))


def index_texts(running: Service, folder: Path, texts: Mapping[str, str]) -> str:
    """A tool over a new folder of files with these texts."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder, name, text)
    tool = running.local_tool(folder)
    running.wait(tool)
    return tool


def symbols(running: Service, tool: str, **params: Any) -> list[str]:
    items = running.get(f"{TOOLS}/{tool}/symbols", **params)["items"]
    return [f"{s['kind']} {'/'.join(filter(None, (s['scope'], s['name'])))} {s['file_path']}" for s in items]


def uses(running: Service, tool: str, **params: Any) -> list[str]:
    items = running.get(f"{TOOLS}/{tool}/references", **params)["items"]
    return sorted(f"{r['kind']} {r['name']} {r['file_path']}:{r['start_line']} in {r['scope']}" for r in items)


def reindex(running: Service, tool: str) -> dict[str, Any]:
    running.post(f"{TOOLS}/{tool}/reindex", {})
    return running.wait(tool)


def stored(running: Service, tool: str) -> list[tuple[Any, ...]]:
    """Every row, with the transaction that wrote it."""
    query = (
        "SELECT f.path, s.name, s.xmin::text FROM symbol s JOIN search_index_file f ON f.id = s.file_id"
        " JOIN search_tool t ON t.index_id = s.index_id WHERE t.id = %s ORDER BY 1, 2"
    )
    return running.rows(query, tool)


def test_definitions_are_found(running: Service, tool: str) -> None:
    assert symbols(running, tool) == [
        "class Shape shapes.py",
        "method Shape/area shapes.py",
        "function draw shapes.py",
        "function draw_all paint.py",
    ]
    assert symbols(running, tool, name="draw") == ["function draw shapes.py"]
    assert symbols(running, tool, prefix="draw") == ["function draw shapes.py", "function draw_all paint.py"]
    assert symbols(running, tool, kind="class") == ["class Shape shapes.py"]
    assert symbols(running, tool, name="nothing") == []
    (shape,) = running.get(f"{TOOLS}/{tool}/symbols", name="Shape")["items"]
    assert (shape["start_line"], shape["end_line"], shape["signature"]) == (2, 4, "class Shape(Base)")


def test_uses_are_found_from_both_ends(running: Service, tool: str) -> None:
    assert uses(running, tool, name="draw") == ["call draw paint.py:6 in draw_all"]
    assert uses(running, tool, name="Shape", kind="import") == ["import Shape paint.py:2 in None"]
    assert uses(running, tool, name="Base") == ["base Base shapes.py:2 in Shape"]
    (draw,) = running.get(f"{TOOLS}/{tool}/symbols", name="draw")["items"]
    found = uses(running, tool, file_id=draw["file_id"], scope="draw")
    assert found == ["call area shapes.py:8 in draw", "call paint shapes.py:8 in draw"]
    checked(running.client.get(f"{TOOLS}/{tool}/references"), 422)


@pytest.mark.parametrize("name", ["Shape.area", "Shape::area", "Shape/area"])
def test_uses_of_a_qualified_name_are_those_of_the_name(running: Service, tool: str, name: str) -> None:
    assert uses(running, tool, name=name) == uses(running, tool, name="area") != []


def test_definitions_are_found_by_their_names(running: Service, calls: str) -> None:
    (index,) = running.rows("SELECT index_id FROM search_tool WHERE id = %s", calls)[0]
    with closing(open_pool(running.database_url)) as pool:

        def named(*names: str) -> list[tuple[str, int]]:
            return [(name, start) for _, start, _, name, _ in symbols_of.find_named(pool, index, names)]

        assert named("load", "JOB") == [("load", 6), ("Job", 4)]
        assert sorted(named("run")) == [("run", 3), ("run", 5)]
        assert named("Job.run") == [("run", 5)]
        assert len(named("nowhere.run", "_CHECKED", "nothing")) == 4
        assert named() == []


def test_each_name_has_its_share_of_the_definitions(running: Service, root: Path) -> None:
    made = root / "shares"
    made.mkdir()
    write(made, "many.py", "".join(f"class C{n}:\n    def run(self):\n        pass\n" for n in range(60)))
    write(made, "uses.js", "const C59 = loaded('./many')\n")
    tool = running.local_tool(made)
    running.wait(tool)
    (index,) = running.rows("SELECT index_id FROM search_tool WHERE id = %s", tool)[0]
    with closing(open_pool(running.database_url)) as pool:
        found = [name for *_, name, _ in symbols_of.find_named(pool, index, ["run", "C59"])]
        # the value of a variable is defined elsewhere
        assert [kind for *_, kind in symbols_of.find_named(pool, index, ["C59"])] == ["class"]
    assert (len(found), found[:3]) == (50, ["run", "C59", "run"])


@pytest.mark.parametrize("others", [symbols_of.MAX_CONSIDERED - 1, symbols_of.MAX_CONSIDERED])
def test_a_qualified_name_is_found_among_any_number_of_its_name(running: Service, root: Path, others: int) -> None:
    made = root / f"namesakes-{others}"
    made.mkdir()
    write(made, "one.py", "class Store:\n    pass\n")
    tool = running.local_tool(made)
    running.wait(tool)
    ((index, file),) = running.rows(
        "SELECT f.index_id, f.id FROM search_index_file f JOIN search_tool t USING (index_id) WHERE t.id = %s", tool
    )
    defined = [
        CodeDefinition("renew", "method", (f"Other{number}",), 0, 0, 1, number + 1, number + 1, "")
        for number in range(others)
    ]
    wanted = CodeDefinition("renew", "method", ("stores", "TokenStore"), 0, 0, 1, 9_000, 9_001, "")
    with closing(open_pool(running.database_url)) as pool:
        with pool.connection() as connection:
            symbols_of.replace(connection, index, files=[file], file_symbols=[(file, [*defined, wanted], [])])
        assert symbols_of.find_named(pool, index, ["TokenStore.renew"]) == [(file, 9_000, 9_001, "renew", "method")]
        assert len(symbols_of.find_named(pool, index, ["renew"])) == 50


def test_pages_of_one_are_the_whole(running: Service, tool: str) -> None:
    found = running.pages(f"{TOOLS}/{tool}/symbols", limit=1)
    assert [item["name"] for item in found] == ["Shape", "area", "draw", "draw_all"]
    (draw,) = running.get(f"{TOOLS}/{tool}/symbols", name="draw")["items"]
    of_file = {"file_id": draw["file_id"]}
    everything = running.get(f"{TOOLS}/{tool}/references", **of_file)["items"]
    assert len(everything) > 2
    assert running.pages(f"{TOOLS}/{tool}/references", limit=1, **of_file) == everything


def test_chunks_carry_symbols_and_are_filtered_by_them(running: Service, tool: str) -> None:
    hits = running.query(tool, "draw all shapes", filters={"symbols": ["draw_all"]})
    assert [(h["file_path"], h["symbol"], h["node_type"], h["language"]) for h in hits] == [
        ("paint.py", "draw_all", "function", "python")
    ]


@pytest.mark.parametrize("name", ["Job.run", "Job::run", "Job/run"])
def test_a_qualified_name_is_that_in_its_scope(running: Service, calls: str, name: str) -> None:
    assert symbols(running, calls, name=name) == ["method Job/run jobs.py"]
    assert symbols(running, calls, name="run") == ["method Job/run jobs.py", "method Store/run store.py"]
    assert symbols(running, calls, name=f"Outer.{name}") == []


@pytest.mark.parametrize(("part", "kind"), [("symbols", "interface"), ("references", "import")])
def test_a_kind_that_is_none_is_refused_with_those_there_are(running: Service, tool: str, part: str, kind: str) -> None:
    refused = running.client.get(f"{TOOLS}/{tool}/{part}", params={"name": "Shape", "kind": "klass"})
    assert kind in checked(refused, 422)["detail"]


def test_definitions_of_a_name_come_by_path_and_line_page_by_page(running: Service, root: Path) -> None:
    made = root / "ordered"
    made.mkdir()
    for n in range(9):
        write(made, f"{n}.py", "class A:\n    def run(self):\n        pass\n\n\ndef run():\n    pass\n")
    tool = running.local_tool(made)
    running.wait(tool)
    for limit in (1, 4, 6):
        found = running.pages(f"{TOOLS}/{tool}/symbols", name="run", limit=limit)
        assert [(item["file_path"], item["start_line"]) for item in found] == [
            (f"{n}.py", line) for n in range(9) for line in (2, 6)
        ]


@pytest.mark.parametrize(
    ("filters", "paths"),
    [
        # the whole class is one chunk, and so are several functions together
        ({"symbols": ["area"]}, {"shapes.py"}),
        ({"symbols": ["draw"]}, {"shapes.py"}),
        ({"symbols": ["area", "draw_all"]}, {"shapes.py", "paint.py"}),
        ({"scope": "Shape"}, {"shapes.py"}),
        ({"scope": "Shape/area"}, {"shapes.py"}),
        ({"scope": "Shape", "symbols": ["area"]}, {"shapes.py"}),
    ],
)
@pytest.mark.parametrize("mode", ["vector", "keyword"])
def test_a_chunk_that_holds_a_definition_passes_its_filters(
    running: Service, tool: str, mode: str, filters: dict[str, Any], paths: set[str]
) -> None:
    hits = running.query(tool, "the area of shapes to draw", mode=mode, filters=filters)
    assert {hit["file_path"] for hit in hits} == paths


def test_a_filter_leaves_the_definition_first(running: Service, root: Path) -> None:
    made = root / "defined"
    made.mkdir()
    write(
        made,
        "small.py",
        "".join(f"def {name}():\n    return {n}\n\n\n" for n, name in enumerate(["one", "two", "three"])),
    )
    for n in range(5):
        write(made, f"use{n}.py", f"class Use{n}:\n    three = three(def_three(three))  # def three\n")
    tool = running.local_tool(made)
    running.wait(tool)
    for filters in ({}, {"languages": ["python"]}, {"path": "*.py"}, {"types": ["py"]}):
        first = running.query(tool, "def three", filters=filters, explain=True)[0]
        assert (first["file_path"], "definition" in first["explain"]) == ("small.py", True)
    others = running.query(tool, "def three", filters={"path": "use*"}, explain=True)
    assert {hit["file_path"] for hit in others} == {f"use{n}.py" for n in range(5)}


def test_an_edit_renews_its_file_only_and_a_removal_takes_its_symbols(
    running: Service, tool: str, folder: Path
) -> None:
    before = stored(running, tool)
    assert reindex(running, tool)["status"] == "ready"
    assert stored(running, tool) == before
    write(folder, "paint.py", PAINT.replace("draw_all", "draw_many"), later=60)
    reindex(running, tool)
    assert symbols(running, tool, prefix="draw") == ["function draw shapes.py", "function draw_many paint.py"]
    assert uses(running, tool, name="draw") == ["call draw paint.py:6 in draw_many"]
    assert [row for row in stored(running, tool) if row[0] == "shapes.py"] == [r for r in before if r[0] == "shapes.py"]
    (folder / "paint.py").unlink()
    reindex(running, tool)
    assert symbols(running, tool, prefix="draw") == ["function draw shapes.py"]
    assert uses(running, tool, name="Shape") == []
    write(folder, "shapes.py", "", later=90)
    reindex(running, tool)
    assert symbols(running, tool) == []
    query = "SELECT count(*) FROM symbol_reference r JOIN search_tool t USING (index_id) WHERE t.id = %s"
    assert running.rows(query, tool) == [(0,)]


ENGINE = '''
from pages.markup import indented

def render_page(title, blocks):
    """Render a page of HTML from its title and its blocks."""
    lines = [f"<h1>{title}</h1>"]
    for block in blocks:
        lines.extend(indented(block.lines, 2))
    return "\\n".join(lines)
'''
#: Each leads to the definition by that name.
LEADING = {
    "pages/__init__.py": "from pages.engine import render_page\n",
    "pages/api.py": """
from pages import engine

def render_page(title, blocks):
    return engine.render_page(title, blocks)
""",
    "pages/site.py": """
class Site:
    def render_page(self, title, blocks):
        return self._engine.render_page(title, blocks)
""",
    "src/lib.rs": "pub use crate::engine::render_page;\n",
    "web/shared.ts": "export const render_page = engine.render_page\n",
}
QUERIES = ["render_page", "where is render_page defined?", "render_page(title, blocks)"]


def test_what_leads_to_a_definition_comes_after_it(running: Service, root: Path) -> None:
    made = root / "leading"
    others = {f"other/{n}.py": f"def task_{n}(value):\n    return value * {n} + offset_{n}(value)\n" for n in range(30)}
    for name, text in {**LEADING, **others, "pages/engine.py": ENGINE}.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        write(made, name, text)
    tool = running.local_tool(made)
    running.wait(tool)
    assert [running.query(tool, query)[0]["file_path"] for query in QUERIES] == ["pages/engine.py"] * len(QUERIES)
    # where all are wrappers, they define it
    (made / "pages/engine.py").unlink()
    running.post(f"{TOOLS}/{tool}/reindex", {"allow_removals": True})
    running.wait(tool)
    found = running.query(tool, "render_page", explain=True)
    assert {hit["file_path"] for hit in found if "definition" in hit["explain"]} == {"pages/api.py", "pages/site.py"}


RECURSIVE = {
    "long.py": """
def depth_of(node):
    if node is None:
        return 0
    deepest = 0
    for child in node.children:
        deepest = deepest + depth_of(child)
    return deepest

def size_of(node):
    return 0 if node is None else 1 + size_of(node.next)
""",
    "stub.py": """
def depth_of(node):
    raise NotImplementedError

def size_of(node):
    raise NotImplementedError
""",
}


def test_a_recursive_definition_leads_to_no_stub(running: Service, root: Path) -> None:
    tool = index_texts(running, root / "recursive", RECURSIVE)
    for name in ("depth_of", "size_of"):
        found = running.query(tool, f"where is {name} defined", explain=True)
        assert {hit["file_path"] for hit in found if "definition" in hit["explain"]} == set(RECURSIVE), name
