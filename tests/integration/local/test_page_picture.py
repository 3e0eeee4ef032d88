"""The page of a hit in a PDF, over HTTP."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.service import TOOLS, Service

PDF = Path(__file__).parents[2] / "data" / "pdf" / "tides.pdf"


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    folder = root / "pages"
    folder.mkdir()
    (folder / "tides.pdf").write_bytes(PDF.read_bytes())
    (folder / "notes.md").write_text("# Notes\n\nHigh water at four.\n")
    return folder


@pytest.fixture(scope="module")
def tool(running: Service, folder: Path) -> str:
    tool = running.local_tool(folder)
    running.wait(tool)
    return tool


def chunk(running: Service, tool: str, query: str, path: str) -> str:
    (hit,) = running.query(tool, query, filters={"path": path}, top_k=1)
    return str(hit["chunk_id"])


def test_the_page_of_a_hit_is_drawn_with_its_lines(running: Service, tool: str, folder: Path) -> None:
    id_ = chunk(running, tool, "blue book readings by telephone", "tides.pdf")
    assert running.get(f"{TOOLS}/{tool}/chunks/{id_}")["picture"] is None
    picture = running.get(f"{TOOLS}/{tool}/chunks/{id_}", picture=True)["picture"]
    assert picture["page"] == 1
    assert base64.b64decode(picture["png"]).startswith(b"\x89PNG")
    assert picture["boxes"]
    assert all(0 <= edge <= 1 for box in picture["boxes"] for edge in box)
    # another version than the one that was read is never drawn beside its text
    (folder / "tides.pdf").write_bytes(PDF.read_bytes() + b"\n% changed\n")
    assert running.get(f"{TOOLS}/{tool}/chunks/{id_}", picture=True)["picture"] is None
    (folder / "tides.pdf").unlink()
    assert running.get(f"{TOOLS}/{tool}/chunks/{id_}", picture=True)["picture"] is None


def test_a_file_without_pages_has_no_picture(running: Service, tool: str) -> None:
    id_ = chunk(running, tool, "high water", "notes.md")
    assert running.get(f"{TOOLS}/{tool}/chunks/{id_}", picture=True)["picture"] is None
