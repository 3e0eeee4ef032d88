"""What a file's state says of its live chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from schemas.errors import FileError
from schemas.reason import FileStatus, Reason
from worker.index.file_states import FileFacts, RemovedFile, UnchangedFile, failed
from worker.state.index.files import FileClaim
from worker.tokens.keywords import VERSION

CLAIM = FileClaim(
    *(uuid4(), b"a.md", "a.md", "/a.md", None, "markdown", 9, "s", "markdown-2", None, "content"),
    *(f"sha256:0 markdown-2 {VERSION}", "a.md", "/a.md", 1, 10, True, False, "en"),
)


def moved(**changed: Any) -> bool:
    claim = replace(CLAIM, **changed)
    return UnchangedFile(claim, FileFacts(claim.type)).moved


def test_a_file_that_is_where_it_was_is_not_moved() -> None:
    assert not moved()


@pytest.mark.parametrize(
    "changed",
    [
        {"path": "b.md"},
        {"id_path": "/b.md"},
        {"patch_pending": True},
        {"work": "full"},
        # another version cuts and words it
        {"live_fingerprint": "sha256:0 markdown-2"},
        {"words_language": "de"},
        {"properties": {"title": "Tides"}},
    ],
)
def test_live_chunks_of_a_moved_file_are_written_anew(changed: dict[str, object]) -> None:
    assert moved(**changed)
    assert not moved(**changed, live_chunks=0)


def test_live_chunks_of_a_file_of_another_type_are_written_anew() -> None:
    assert UnchangedFile(CLAIM, FileFacts("text")).moved


@pytest.mark.parametrize(
    ("reason", "status", "keeps_live"),
    [(Reason.STORE_REFUSED, FileStatus.FAILED, True), (Reason.TOO_LARGE, FileStatus.SKIPPED, False)],
)
def test_a_failed_file_keeps_its_live_chunks_and_a_skipped_one_does_not(
    reason: Reason, status: FileStatus, keeps_live: bool
) -> None:
    file = failed(RemovedFile(CLAIM), FileError(reason))
    assert (file.status, file.keeps_live, file.new) == (status, keeps_live, ())
