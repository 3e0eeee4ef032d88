"""The page of files: the outcome of each, the remedy for its owner, its cost, and its timings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.embeddings import EmbeddingsFake, sha
from tests.service import Service

STAGES = {"read", "parse", "chunk", "embed", "write"}


def sections(*texts: str) -> str:
    return "".join(f"# {text}\n\nA section about {text}.\n\n" for text in texts)


def indexed(running: Service, folder: Path, **files: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The rows of a folder's files by name, and the status."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    tool = running.local_tool(folder)
    status = running.wait(tool)
    return {file["file_name"]: file for file in running.files(tool)}, status


def test_every_outcome_is_shown_with_what_its_owner_can_do(running: Service, root: Path) -> None:
    files, _ = indexed(
        running, root / "mixed", good_md=sections("apples", "birds"), broken_pdf="%PDF-1.7", empty_txt="", film_mp4="x",
        half_json='{"a": "cut off',
        blank_txt=" \n", large_txt="word " * 2000, nul_txt="a\0\1\2b",
    )  # fmt: skip # a name a line says nothing
    good = files["good.md"]
    assert (good["status"], good["reason"], good["message"], good["remedy"]) == ("indexed", None, None, None)
    assert (good["file_type"], good["size"], good["chunks"]) == ("markdown", len(sections("apples", "birds")), 2)
    assert (good["embedded"], good["embedded_chunks"], good["tokens"] > 10) == (True, 2, True)
    assert (set(good["timings"]), min(good["timings"].values()) >= 0) == (STAGES, True)
    half = files["half.json"]
    assert (half["status"], half["reason"], half["chunks"], half["file_type"]) == ("indexed", None, 1, "json")
    assert half["message"].startswith("Not well-formed JSON at line 1, column 7 (")
    assert half["message"].endswith("It is read as plain text; repair it to find values by key.")
    reasons = {name: file["reason"] for name, file in files.items() if file["status"] != "indexed"}
    assert len(reasons) == len(files) - 2
    assert reasons["empty.txt"] == "empty"
    assert reasons["broken.pdf"] == "parse_failed"
    assert (reasons["large.txt"], reasons["film.mp4"]) == ("too_large", "unsupported_type")
    for name in reasons:
        file = files[name]
        assert (file["embedded"], file["chunks"], file["embedded_chunks"]) == (False, 0, 0), file
        assert all(said.endswith(".") and " " in said for said in (file["message"], file["remedy"])), file


def test_a_failed_file_tells_what_was_paid_for_it(running: Service, root: Path, provider: EmbeddingsFake) -> None:
    provider.reset()
    text = sections("apples in vain", "REFUSE-ME", "birds in vain")
    files, status = indexed(running, root / "partly", partly_md=text, good_md=sections("cars"))
    failed = files["partly.md"]
    assert (failed["status"], failed["reason"], failed["chunks"]) == ("failed", "embedding_refused", 3)
    assert "Lines 5 to 7" in failed["message"]
    assert (failed["embedded_chunks"], failed["embedded"]) == (2, False)
    assert {"read", "parse", "chunk", "embed"} <= failed["timings"].keys()
    assert provider.audit.texts.total() == status["embedded_chunks"] == 3
    assert status["tokens"] > files["good.md"]["tokens"]


def test_paid_texts_of_a_failed_file_are_not_paid_again(running: Service, root: Path, provider: EmbeddingsFake) -> None:
    files, _ = indexed(
        running, root / "mended", partly_md=sections("eggs", "REFUSE-ME", "flags"), good_md=sections("gates")
    )
    provider.reset()
    (root / "mended" / "partly.md").write_text(sections("eggs", "flags"))
    tool = running.local_tool(root / "mended")
    status = running.wait(tool)
    mended = {file["file_name"]: file for file in running.files(tool)}["partly.md"]
    assert (mended["file_id"], mended["status"]) == (files["partly.md"]["file_id"], "indexed")
    assert (mended["embedded_chunks"], mended["chunks"], status["embedded_chunks"]) == (0, 2, 0)
    assert provider.audit.texts.total() == 0


def test_files_are_filtered_by_reason(running: Service, root: Path) -> None:
    folder = root / "reasons"
    indexed(running, folder, good_md=sections("apples"), empty_txt="", also_txt="", film_mp4="x")
    tool = running.local_tool(folder)
    running.wait(tool)
    names = [file["file_name"] for file in running.files(tool, reason="empty")]
    assert names == ["also.txt", "empty.txt"]
    assert running.files(tool, reason="empty", status="failed") == []
    assert [file["file_name"] for file in running.files(tool, reason="empty", q="ALSO")] == ["also.txt"]


def test_chunks_show_the_context_that_is_embedded(running: Service, root: Path, provider: EmbeddingsFake) -> None:
    provider.reset()
    folder = root / "contexts"
    text = "# Fruit\n\nAll fruit.\n\n## Apples\n\nApples are red.\n"
    files, _ = indexed(running, folder, fruit_md=text)
    chunks = running.client.get(
        f"/api/tools/search/{running.local_tool(folder)}/files/{files['fruit.md']['file_id']}/chunks"
    ).json()["items"]
    embedded = ["\n\n".join(filter(None, (chunk["context"], chunk["chunk_text"]))) for chunk in chunks]
    assert embedded == ["# Fruit\n\nAll fruit.", "Fruit\n\n## Apples\n\nApples are red."]
    assert {sha(text) for text in embedded} == set(provider.audit.texts)
