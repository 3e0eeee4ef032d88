"""What a file's row records of its end, and what is recorded of files that do not end here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import numpy as np
import pytest

from schemas.content.document import Chunk, DocumentProperties
from schemas.errors import FileError
from schemas.reason import FileStatus, Reason
from worker.index.commit import commit, forget, outcome, record_paid
from worker.index.file_states import (
    EmbeddedFile,
    FailedFile,
    File,
    FileFacts,
    PreparedFile,
    ProviderUsage,
    RemovedFile,
    UnchangedFile,
)
from worker.state.index import chunks, files
from worker.state.index.chunks import PlacedChunk
from worker.state.index.files import FileClaim

CLAIM = FileClaim(
    *(uuid4(), b"a.md", "a.md", "/a.md", None, "markdown", 9, "s", "markdown-2", None, "content"),
    *("old", "a.md", "/a.md", 5, 50, True, False, "en", 7),
)
VECTOR = np.ones(1, dtype=np.float32)
FACTS = FileFacts(
    "code", "stamp", "new", "text/x-python", False, "python", "de", DocumentProperties(title="Tides"), "half"
)


def placed(number: int) -> PlacedChunk:
    return PlacedChunk(uuid4(), CLAIM.id, number, Chunk("text", 0, 4, 1, 1, 10 + number), "hash", None)


def prepared(*, embedded: bool = True) -> PreparedFile:
    return PreparedFile(CLAIM, FACTS, [placed(0), placed(1), placed(2)], embedded, timings={"read": 1, "parse": 2})


def ended(file: File, chunks: int = 0, tokens: int = 0) -> EmbeddedFile:
    return EmbeddedFile(file, {chunk.id: VECTOR for chunk in file.new}, ProviderUsage(chunks, tokens), {"embed": 3.0})


@pytest.mark.parametrize(
    "file", [prepared(), UnchangedFile(CLAIM, FACTS), FailedFile(CLAIM, FACTS, FileError(Reason.STORE_REFUSED, "No."))]
)
def test_an_outcome_has_what_was_found_out_and_what_it_cost(file: File) -> None:
    made = outcome(ended(file, 2, 20))
    assert (made.id, made.generation, made.status) == (CLAIM.id, 7, file.status)
    assert (made.embedded_chunks, made.tokens) == (2, 20)
    facts = (made.type, made.stamp, made.mime, made.is_binary, made.language, made.words_language)
    assert facts == ("code", "stamp", "text/x-python", False, "python", "de")
    assert (made.properties.title, made.note) == ("Tides", "half")
    assert made.timings == {**file.timings, "embed": 3.0}


def test_the_chunks_and_tokens_of_a_new_text_replace_those_of_the_live_one() -> None:
    made = outcome(ended(prepared(), 1, 10))
    assert (made.fingerprint, made.chunks, made.live_tokens, made.reused_chunks) == ("new", 3, 33, 2)
    assert (made.embedded, made.reason, made.message) == (True, None, None)


def test_an_unchanged_text_keeps_its_chunks_and_tokens() -> None:
    made = outcome(ended(UnchangedFile(CLAIM, FACTS), 2, 20))
    assert (made.fingerprint, made.chunks, made.live_tokens, made.reused_chunks) == ("new", 5, 50, 3)


def test_chunks_without_vectors_are_not_reused() -> None:
    made = outcome(ended(prepared(embedded=False)))
    assert (made.chunks, made.embedded, made.reused_chunks) == (3, False, 0)


@pytest.mark.parametrize("number", [0, 2])
def test_a_file_that_lacks_vectors_waits_for_them(number: int) -> None:
    file = prepared()
    vectors = {chunk.id: VECTOR for chunk in file.chunks[:number]}
    made = outcome(EmbeddedFile(file, vectors, ProviderUsage(min(number, 1), 10)))
    assert (made.status, made.chunks, made.vectors_due) == (FileStatus.PENDING, 3, 3 - number)
    assert (made.embedded_chunks, made.reused_chunks, made.fingerprint) == (min(number, 1), number // 2, "new")


@pytest.mark.parametrize(("reason", "left"), [(Reason.EMBEDDING_REFUSED, 2), (Reason.BINARY, 0)])
def test_a_failed_file_keeps_what_is_due_as_long_as_its_text(reason: Reason, left: int) -> None:
    claim = replace(CLAIM, vectors_due=3, lost=True)
    made = outcome(ended(FailedFile(claim, FACTS, FileError(reason, "No."), new=[placed(0)])))
    assert made.vectors_due == left


def test_a_failed_file_has_its_reason_and_no_fingerprint_so_that_it_is_read_again() -> None:
    made = outcome(ended(FailedFile(CLAIM, FACTS, FileError(Reason.STORE_REFUSED, "No."))))
    assert (made.reason, made.message, made.fingerprint, made.chunks) == (Reason.STORE_REFUSED, "No.", None, 0)


def test_a_removed_file_has_no_chunks() -> None:
    made = outcome(ended(RemovedFile(CLAIM)))
    assert (made.status, made.type, made.chunks, made.fingerprint) == (FileStatus.REMOVED, "markdown", 0, None)


def test_only_files_that_cost_something_are_recorded_as_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []
    monkeypatch.setattr(files, "add_paid", lambda _, epoch, paid: recorded.append((epoch, paid)))
    run: Any = Mock(epoch=3)
    record_paid(run, [ended(prepared())])
    assert recorded == []
    record_paid(run, [ended(prepared()), ended(prepared(), 2, 20)])
    assert recorded == [(3, [(CLAIM.id, 2, 20)])]


def test_vectors_are_deleted_before_their_rows_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run: Any = Mock()
    confirmed: list[Any] = []
    monkeypatch.setattr(chunks, "confirm_deleted", lambda _, ids: confirmed.append(ids))
    forget(run, [])
    assert not run.store.write.called
    gone = [uuid4()]
    run.store.write.side_effect = ConnectionError
    with pytest.raises(ConnectionError):
        forget(run, gone)
    assert confirmed == []
    run.store.write.side_effect = None
    forget(run, gone)
    assert run.store.write.call_args.kwargs == {"deletes": gone}
    assert confirmed == [gone]


def test_while_all_texts_wait_for_a_request_nothing_is_asked_of_postgres_and_the_store() -> None:
    run: Any = Mock()
    commit(run, [])
    assert run.lease.check.called
    assert not run.pool.mock_calls
    assert not run.store.mock_calls
