"""What documents say of themselves: shown with their files, and found by keywords without embedding anything again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docx
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


def report(file: Path, company: str) -> None:
    document = docx.Document()
    for line in (company, "Quarterly statement", "Second quarter of 2023"):
        document.add_paragraph(line)
    for section in ("Revenue", "Staff", "Outlook"):
        document.add_heading(section, 2)
        document.add_paragraph(f"We look at {section.lower()}. {TEXT * 3}")
    document.save(str(file))


def test_every_chunk_of_a_report_is_found_by_whose_it_is_and_an_older_index_embeds_nothing(ground: Ground) -> None:
    folder = ground.root / "reports"
    folder.mkdir(exist_ok=True)
    report(folder / "a.docx", "Norvik Shipping")
    tool = ground.service.local_tool(folder)
    ground.service.wait(tool)
    chunks = found(ground, tool, "rises")
    assert chunks >= 3
    assert found(ground, tool, "Norvik") == found(ground, tool, "2023") >= chunks
    assert "opening" not in ground.service.files(tool)[0]["properties"]

    report(folder / "a.docx", "Halden Foods")
    assert reindexed(ground, tool)["embedded_chunks"] == 1
    assert (found(ground, tool, "Norvik"), found(ground, tool, "Halden") >= chunks) == (0, True)

    older = (
        "UPDATE search_index_file SET code_version = 'docx-6', properties = properties - 'opening' WHERE index_id = %s"
    )
    ground.service.rows(older, ground.index(tool).id)
    assert reindexed(ground, tool)["embedded_chunks"] == 0
    assert found(ground, tool, "Halden") >= chunks
