"""Compound files of old programs that are cut or damaged: the text that is still there is read."""

from __future__ import annotations

from random import Random

import pytest

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from tests.compound import compound
from tests.parsing import parse
from worker.parse.limits import Limits
from worker.parse.office.recovered_text import read_damaged

pytestmark = pytest.mark.usefixtures("helper")
LIMITS = Limits(seconds=20)
WORDS = "The harbour master writes the tides of each morning into the long ledger. "
TEXTS = [WORDS * 200, "Der Hafenmeister prüft täglich größere Boote, Stege und Pfähle am Südufer. " * 200]
CYRILLIC = "Начальник порта записывает приливы каждого утра в длинный журнал. " * 200


def message(text: str) -> bytes:
    return compound(
        {
            "__properties_version1.0": bytes(32),
            "__substg1.0_0037001F": "Tides".encode("utf-16-le"),
            "__substg1.0_1000001F": text.encode("utf-16-le"),
        }
    )


@pytest.mark.parametrize("text", [*TEXTS, CYRILLIC])
@pytest.mark.parametrize("share", [0.95, 0.7, 0.4])
def test_a_cut_message_keeps_its_text(text: str, share: float) -> None:
    data = message(text)
    document = parse("tides.msg", data[: int(len(data) * share)], LIMITS)
    assert document.text.count(text[: text.index(".")]) >= 200 * (share - 0.3)
    assert "damaged" in document.note
    assert parse("tides.msg", data, LIMITS).note == ""


def test_a_message_of_which_little_is_cut_keeps_its_head() -> None:
    document = parse("tides.msg", message(WORDS)[:-10], LIMITS)
    assert document.text.startswith("Subject: Tides")
    assert WORDS.strip() in document.text
    assert "damaged" in document.note


@pytest.mark.parametrize("encoding", ["utf-16-le", "cp1252"])
@pytest.mark.parametrize("text", TEXTS)
def test_text_is_found_in_either_width(text: str, encoding: str) -> None:
    junk = Random(1).randbytes(3000)
    data = compound({"WordDocument": junk + text.encode(encoding) + junk})
    document = read_damaged(_refuse, data, "doc", LIMITS)
    assert document
    assert text.strip() in document.text
    assert len(document.text) < len(text) + 100


def test_what_holds_no_text_stays_refused() -> None:
    names = "Times New Roman\0Symbol\0Arial\0Normal.dot\0Microsoft Word 9.0\0".encode("utf-16-le")
    data = compound({"WordDocument": Random(2).randbytes(200_000) + names + bytes(range(256)) * 40})
    assert read_damaged(_refuse, data, "doc", LIMITS) is None
    assert read_damaged(_refuse, b"no compound file " * 100, "doc", LIMITS) is None


def test_too_much_text_is_refused() -> None:
    data = compound({"WordDocument": TEXTS[0].encode()})
    with pytest.raises(FileError) as refused:
        read_damaged(_refuse, data, "doc", Limits(max_characters=len(TEXTS[0]) // 2))
    assert refused.value.reason is Reason.TOO_LARGE


def _refuse(_data: bytes) -> Document:
    raise FileError(Reason.PARSE_FAILED)
