"""What documents say of themselves: shown with their files, and found by keywords without embedding anything again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.stores.ground import Ground
from tests.service import TOOLS
from worker.state.index import drift

PAGE = """<html><head><title>{title}</title><meta name="author" content="{author}"></head>
<body><h1>Why</h1><p>{text}</p><h2>How</h2><p>{text} twice a day</p></body></html>"""
TEXT = "The water rises. " * 20


@pytest.fixture
def page(ground: Ground) -> Path:
    folder = ground.root / "stated"
    folder.mkdir(exist_ok=True)
    (folder / "plain.txt").write_text("The water falls")
    (folder / "renamed.html").unlink(missing_ok=True)
    return folder / "page.html"


def found(ground: Ground, tool: str, query: str) -> int:
    return len(ground.service.query(tool, query, mode="keyword"))


def reindexed(ground: Ground, tool: str) -> dict[str, Any]:
    ground.service.post(f"{TOOLS}/{tool}/reindex", {})
    return ground.service.wait(tool)


def test_properties_are_shown_and_found_and_an_edit_of_them_embeds_nothing(ground: Ground, page: Path) -> None:
    page.write_text(PAGE.format(title="Zanzibar tides", author="Ada Lovelace", text=TEXT))
    tool = ground.service.local_tool(page.parent)
    ground.service.wait(tool)
    stated, plain = (file["properties"] for file in ground.service.files(tool))
    assert (stated["title"], stated["author"], stated["created"]) == ("Zanzibar tides", "Ada Lovelace", None)
    assert plain is None
    chunks = found(ground, tool, "rises")
    assert chunks > 1
    assert found(ground, tool, "Zanzibar") == found(ground, tool, "Lovelace") == chunks

    page.write_text(PAGE.format(title="Madagascar tides", author="Ada Lovelace", text=TEXT))
    assert reindexed(ground, tool)["embedded_chunks"] == 0
    assert (found(ground, tool, "Zanzibar"), found(ground, tool, "Madagascar")) == (0, chunks)

    index = ground.index(tool)
    _, _, words = drift.rewrite(ground.resources.pool, index.id, ground.ids(index, "page.html"))
    assert ["madagascar" in each.code.split() for each in words.values()] == [True] * chunks

    page.rename(page.with_name("renamed.html"))
    assert reindexed(ground, tool)["embedded_chunks"] == 0
    assert found(ground, tool, "Madagascar") == found(ground, tool, "renamed") == chunks

    page.with_name("renamed.html").write_text(PAGE.format(title="", author="", text=TEXT))
    assert reindexed(ground, tool)["embedded_chunks"] == 0
    assert found(ground, tool, "Madagascar") == found(ground, tool, "Lovelace") == 0
    assert [file["properties"] for file in ground.service.files(tool)] == [None, None]
