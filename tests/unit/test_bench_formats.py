"""The benchmark of formats counts the words of each, and fails if a reader loses some."""

from __future__ import annotations

import pytest

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from tests.bench import made, recall
from worker.formats.registry import FORMATS
from worker.parse import Limits


def test_every_format_has_a_document() -> None:
    assert recall.documents().keys() == {format_.type for format_ in FORMATS}


@pytest.mark.parametrize(
    ("truth", "found", "shares"),
    [("One two two", "two ONE", (2, 3)), ("a b", "b, a, b", (2, 2)), ("Köln", "Koln", (0, 1))],
)
def test_each_word_counts_as_often_as_it_is_there(truth: str, found: str, shares: tuple[int, int]) -> None:
    assert recall.share(truth, found) == shares


@pytest.mark.parametrize(("lost", "below"), [(132, []), (133, ["text"])])
def test_a_reader_that_loses_words_is_named(lost: int, below: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(section.words for section in made.sections())
    assert len(text.split()) == 13_200

    def parse(_name: str, data: bytes, _limits: Limits) -> Document:
        return Document(" ".join(data.decode().split()[lost:]), "text")

    monkeypatch.setattr(recall, "parse", parse)
    monkeypatch.setattr(recall, "documents", lambda: {"text": recall.Document("a.txt", text.encode(), text)})
    assert recall.measure(lambda: 0.0) == below


@pytest.mark.parametrize(("reason", "below"), [(Reason.NEEDS_OCR, []), (Reason.PARSE_FAILED, ["text"])])
def test_a_reader_that_fails_is_named_unless_it_lacks_a_program(
    reason: Reason, below: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(*_: object) -> Document:
        raise FileError(reason)

    monkeypatch.setattr(recall, "parse", parse)
    monkeypatch.setattr(recall, "documents", lambda: {"text": recall.Document("a.txt", b"a", "a")})
    assert recall.measure(lambda: 0.0) == below
