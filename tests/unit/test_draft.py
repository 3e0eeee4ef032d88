"""A slice ends after some time, wherever it is in its files: others wait, and the next slice goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from schemas.source import ChunkSettings, EmbedderProfile
from schemas.status import Reason
from schemas.tool import IndexSettings
from worker import draft
from worker.draft import Run, draft_all
from worker.keywords import VERSION
from worker.lease import Lease
from worker.parse import Limits
from worker.sources.local import LocalFolder
from worker.state.files import Claim
from worker.state.tools import Index
from worker.tokens import cl100k

NOT_ASKED: Any = None


def run_over(folder: Path, limits: Limits | None = None) -> Run:
    settings = IndexSettings(
        embedder=EmbedderProfile(model="m", dimensions=8), chunks=ChunkSettings(), max_file_bytes=2_000_000
    )
    index = Index(uuid4(), "p", {}, None, settings, "lancedb", "store", "n", 1)
    source = LocalFolder(str(folder), [folder])
    return Run(
        index, 1, source, cl100k(), NOT_ASKED, NOT_ASKED, NOT_ASKED, Lease(), concurrency=1, limits=limits or Limits()
    )


def claim(path: str, size: int = 9, reason: Reason | None = None) -> Claim:
    return Claim(
        *(uuid4(), path.encode(), path, f"/{path}", None, None, size, "s", "markdown-2", reason, "content"),
        *(None, None, None, 0, 0, True, False),
    )


@pytest.mark.parametrize(("seconds", "drafted"), [(0.0, 1), (60.0, 3)])
def test_a_slice_that_took_its_time_begins_no_further_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, drafted: int
) -> None:
    names = ["a.md", "b.md", "c.md"]
    for name in names:
        (tmp_path / name).write_text(f"# {name}\n")
    monkeypatch.setattr(draft, "DRAFT_SECONDS", seconds)
    run = run_over(tmp_path)
    made = draft_all(run, [claim(name) for name in names])
    # one at least, or a slice of slow files would never get anywhere
    assert [each.claim.path for each in made] == names[:drafted]
    assert all(each.placed and not each.failure for each in made)
    assert run.lease._parsing_since is None


@pytest.mark.parametrize(("version", "anew"), [(f"markdown-2 {VERSION}", False), ("markdown-2", True)])
def test_the_words_of_an_earlier_release_are_written_anew(version: str, anew: bool) -> None:
    held = replace(claim("a.md"), live_fingerprint=f"sha256:0 {version}", live_path="a.md", live_id_path="/a.md")
    assert draft.Draft(replace(held, live_chunks=1)).moved == anew
    assert not draft.Draft(held).moved


def test_a_file_that_is_too_large_says_how_large_it_is_and_is_not_read(tmp_path: Path) -> None:
    (made,) = [draft.draft(run_over(tmp_path), claim("gone.txt", 5_000_000, Reason.TOO_LARGE))]
    assert made.failure is not None
    assert made.failure.reason is Reason.TOO_LARGE
    assert "5,000,000 bytes, more than MAX_FILE_BYTES (2,000,000)" in made.failure.message


@pytest.mark.parametrize(
    ("text", "fits"), [("a\n" * 800_000, False), ("1 " * 800_000, False), ("some words\n" * 140_000, True)]
)
def test_a_text_whose_cutting_would_take_too_much_is_too_large(tmp_path: Path, text: str, fits: bool) -> None:
    (tmp_path / "a.txt").write_text(text)
    made = draft.draft(run_over(tmp_path, Limits(memory_bytes=30 << 20)), claim("a.txt"))
    assert bool(made.placed) is fits
    if made.failure:
        assert (made.failure.reason, "PARSE_MEMORY_MB" in made.failure.message) == (Reason.TOO_LARGE, True)


def test_a_text_is_not_counted_before_its_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_over(tmp_path, Limits(memory_bytes=1 << 20))
    settings = run.index.settings.model_copy(update={"max_token_count": 10})
    run = replace(run, index=replace(run.index, settings=settings))
    (tmp_path / "a.txt").write_text("1 " * 800_000)
    monkeypatch.setattr(draft, "_SAMPLED", 1_000_000)
    monkeypatch.setattr(draft, "counted", NOT_ASKED)
    made = draft.draft(run, claim("a.txt"))
    assert made.failure is not None
    assert (made.failure.reason, "PARSE_MEMORY_MB" in made.failure.message) == (Reason.TOO_LARGE, True)
