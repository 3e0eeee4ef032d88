"""A renamed node is read according to its new name, like a file on disk."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.service import PROJECT, TOOLS, Service, checked

PROGRAM = "# Setup\n\ndef run():\n    return 1\n"
NODES = f"/api/projects/{PROJECT}/nodes"


@pytest.fixture
def folder(running: Service) -> str:
    return running.node(f"f{uuid4().hex[:8]}", "folder")


def upload_all(running: Service, folder: str, texts: dict[str, str]) -> list[dict[str, Any]]:
    files = [("files", (name, text.encode())) for name, text in texts.items()]
    answer = running.client.post(f"/api/projects/{PROJECT}/uploads", files=files, data={"parent_id": folder})
    return list(checked(answer, 200)["items"])


def upload(running: Service, folder: str, name: str, text: str) -> str:
    return str(upload_all(running, folder, {name: text})[0]["file_id"])


def patched(running: Service, node: str, **body: object) -> dict[str, Any]:
    return checked(running.client.patch(f"{NODES}/{node}", json=body), 200)


def reindexed(running: Service, tool: str) -> list[tuple[str, str, str | None]]:
    running.post(f"{TOOLS}/{tool}/reindex", {})
    status = running.wait(tool)
    assert status["embedded_chunks"] + status["reused_chunks"] >= len(running.files(tool))
    return [(file["file_path"], file["file_type"], file["language"]) for file in running.files(tool)]


def test_a_renamed_upload_is_read_by_its_new_name(running: Service, folder: str) -> None:
    node = upload(running, folder, "guide.md", PROGRAM)
    tool = running.tool(node_id=folder)
    running.wait(tool)
    for name, type_, told in (
        ("guide.py", "file", ("guide.py", "code", "python")),
        # the same format in another language
        ("guide.js", "file", ("guide.js", "code", "javascript")),
        ("guide.markdown", "markdown", ("guide.markdown", "markdown", None)),
        ("guide", "file", ("guide", "text", None)),
    ):
        assert patched(running, node, name=name)["type"] == type_
        ((path, kind, language),) = reindexed(running, tool)
        assert (path, kind) == told[:2]
        if told[2]:
            assert language == told[2]


def test_a_type_that_the_name_did_not_tell_stays(running: Service, folder: str) -> None:
    given = running.node("notes", "markdown", PROGRAM, parent_id=folder)
    inline = running.node("data.json", "json", {"run": 1}, parent_id=folder)
    tool = running.tool(node_id=folder)
    running.wait(tool)
    assert patched(running, given, name="notes.py")["type"] == "markdown"
    assert patched(running, inline, name="data.txt")["content"] == {"run": 1}
    assert [file[:2] for file in reindexed(running, tool)] == [("data.txt", "json"), ("notes.py", "markdown")]


def test_a_new_name_and_a_new_content_go_together(running: Service, folder: str) -> None:
    node = upload(running, folder, "data.json", '{"run": 1}')
    answer = patched(running, node, name="data.md", content="# Run\n")
    assert (answer["type"], answer["content"]) == ("markdown", "# Run\n")
    answer = patched(running, node, name="data.json", content={"run": 2})
    assert (answer["type"], answer["content"]) == ("json", {"run": 2})


def test_filters_know_the_type_that_a_new_name_tells(running: Service, folder: str) -> None:
    """The text is the same, and so are its chunks."""
    node = upload(running, folder, "guide.md", "Nothing but a line.\n")
    tool = running.tool(node_id=folder)
    running.wait(tool)
    patched(running, node, name="guide.txt")
    assert [file[:2] for file in reindexed(running, tool)] == [("guide.txt", "text")]
    assert [hit["file_path"] for hit in running.query(tool, "line", filters={"types": ["text"]})] == ["guide.txt"]
