"""With `config.containers`, files of archives and attachments of e-mail are indexed as files of their own."""

from __future__ import annotations

import zipfile
from email.message import EmailMessage
from pathlib import Path

from tests.service import TOOLS, Service


def _pack(file: Path, texts: dict[str, str]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)


def _reindex(running: Service, tool: str, **body: object) -> dict[str, object]:
    running.post(f"{TOOLS}/{tool}/reindex", body)
    return running.wait(tool)


def test_members_are_found_read_and_followed(running: Service, root: Path) -> None:
    folder = root / "contained"
    folder.mkdir()
    texts = {"plans/garden.md": "# Garden\n\nThe tulips need water.", "kitchen.md": "# Kitchen\n\nThe oven is broken."}
    _pack(folder / "house.zip", texts)
    (folder / "broken.zip").write_bytes((folder / "house.zip").read_bytes()[:60])
    message = EmailMessage()
    message["Subject"] = "The invoice"
    message.set_content("Please find it attached.")
    message.add_attachment("The plumber costs 250.", subtype="markdown", filename="invoice.md")
    message.add_attachment(b"\0\1", maintype="application", subtype="zip", filename="more.zip")
    (folder / "mail.eml").write_bytes(bytes(message))
    tool = running.local_tool(folder, config={"containers": ["archives", "attachments"]})
    assert running.wait(tool)["failed_files"] == 1
    outcomes = {file["file_path"]: (file["status"], file["reason"]) for file in running.files(tool)}
    assert outcomes == {
        "house.zip/plans/garden.md": ("indexed", None),
        "house.zip/kitchen.md": ("indexed", None),
        "broken.zip/plans/garden.md": ("failed", "parse_failed"),
        "mail.eml": ("indexed", None),
        "mail.eml/invoice.md": ("indexed", None),
        "mail.eml/more.zip": ("skipped", "unsupported_type"),
    }
    assert running.query(tool, "tulips water", mode="keyword")[0]["file_path"] == "house.zip/plans/garden.md"
    assert running.query(tool, "plumber", mode="keyword")[0]["file_path"] == "mail.eml/invoice.md"
    hits = running.post(f"{TOOLS}/{tool}/grep", {"pattern": "oven"}, status=200)["hits"]
    assert [hit["file_path"] for hit in hits] == ["house.zip/kitchen.md"]

    assert _reindex(running, tool)["embedded_chunks"] == 0
    _pack(
        folder / "house.zip", {"plans/garden.md": texts["plans/garden.md"], "cellar.md": "# Cellar\n\nThe wine is old."}
    )
    changed = _reindex(running, tool, paths=["house.zip/cellar.md"])
    assert (changed["embedded_chunks"], changed["removed_files"]) == (1, 1)
    assert {file["file_path"] for file in running.files(tool, status="indexed") if "house" in file["file_path"]} == {
        "house.zip/plans/garden.md",
        "house.zip/cellar.md",
    }
    assert not running.query(tool, "oven", mode="keyword")

    # another config is another index, in which an archive is one file that is not read
    closed = running.local_tool(folder)
    running.wait(closed)
    assert {file["file_path"] for file in running.files(closed)} == {"house.zip", "broken.zip", "mail.eml"}
