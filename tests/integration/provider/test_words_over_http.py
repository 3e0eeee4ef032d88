"""A folder whose provider does not answer is searched by its words, and ends complete once it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.fakes.embeddings import EmbeddingsFake
from tests.service import TOOLS, Service, checked, eventually

FILES = {
    "birds.md": "# Birds\n\nAn owl hoots at the zenith.\n",
    "code.py": "def hoot(zenith):\n    return zenith\n",
    "stars.md": "# Stars\n\nThe zenith is above us.\n",
}
MODES = ("hybrid", "vector", "keyword")


def test_words_answer_until_the_provider_does(running: Service, root: Path, provider: EmbeddingsFake) -> None:
    folder = root / "words"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    hold = provider.holds.add("embeddings", "zenith")
    # no worker has measured how fast vectors of this length come
    tool = running.local_tool(folder, config={"dimensions": 48})
    try:
        eventually(lambda: running.status(tool)["searchable_at"], 60)
        now = running.status(tool)
        assert (now["status"], now["indexed_files"], now["searchable_files"]) == ("indexing", 0, len(FILES))
        assert now["vector_chunks"] == 0 < now["total_chunks"]
        assert now["words_eta_seconds"] is None
        for mode in MODES:
            found = asked(running, tool, mode)
            assert found["results"][0]["file_path"] == "birds.md"
            covered = found["coverage"]
            assert (covered["indexed_files"], covered["total_files"], covered["vector_share"]) == (3, 3, 0.0)
            assert codes(found) == ([] if mode == "keyword" else ["meaning_follows"])
        assert [(file["status"], file["embedded"]) for file in files(running, tool)] == [("indexing", False)] * 3
        named = running.get(f"{TOOLS}/{tool}/symbols", name="hoot")["items"]
        assert [symbol["file_path"] for symbol in named] == ["code.py"]
    finally:
        hold.release()
    running.wait(tool)
    done = running.status(tool)
    assert done["vector_chunks"] == done["total_chunks"] == done["embedded_chunks"]
    # counts of a moment ago may be shown
    eventually(lambda: asked(running, tool, "hybrid")["coverage"]["vector_share"] == 1.0, 10)
    for mode in MODES:
        assert codes(asked(running, tool, mode)) == []
    assert [(file["status"], file["embedded"]) for file in files(running, tool)] == [("indexed", True)] * 3


def asked(running: Service, tool: str, mode: str) -> dict[str, Any]:
    body = {"query": "owl hoots", "mode": mode}
    return checked(running.client.post(f"{TOOLS}/{tool}/query", json=body), 200)


def codes(answer: dict[str, Any]) -> list[str]:
    return [note["code"] for note in answer["notes"] if note["code"] != "nothing_fits_well"]


def files(running: Service, tool: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = running.get(f"{TOOLS}/{tool}/files")["items"]
    return items
