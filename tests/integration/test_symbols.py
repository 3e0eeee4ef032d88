"""What code defines and uses: found after indexing, renewed by an edit, gone with its file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.service import TOOLS, Service, checked

#: Older than what a stamp is trusted at.
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


def test_pages_of_one_are_the_whole(running: Service, tool: str) -> None:
    found, cursor = [], None
    while True:
        params = {"limit": 1, **({"cursor": cursor} if cursor else {})}
        page = running.get(f"{TOOLS}/{tool}/symbols", **params)
        found += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == ["Shape", "area", "draw", "draw_all"]


def test_chunks_carry_symbols_and_are_filtered_by_them(running: Service, tool: str) -> None:
    hits = running.query(tool, "draw all shapes", filters={"symbols": ["draw_all"]})
    assert [(h["file_path"], h["symbol"], h["node_type"], h["language"]) for h in hits] == [
        ("paint.py", "draw_all", "function", "python")
    ]


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
    assert running.rows("SELECT count(*) FROM symbol_reference") == [(0,)]
