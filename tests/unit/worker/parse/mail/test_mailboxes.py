"""Messages of Outlook, and many messages in one file."""

from __future__ import annotations

import struct

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.compound import compound, outlook, workbook
from worker.formats.detect import detect
from worker.parse.limits import Limits
from worker.parse.mail import mbox, msg

LIMITS = Limits()
RICH = rb"{\rtf1\ansi The plank is loose.\par}"


def rich(compressed: bytes, size: int, mark: bytes = b"LZFu") -> bytes:
    return struct.pack("<II4sI", len(compressed) + 12, size, mark, 0) + compressed


def literal(text: bytes) -> bytes:
    """Compressed text without a reference."""
    return b"".join(b"\0" + text[at : at + 8] for at in range(0, len(text), 8))


@pytest.mark.parametrize(
    ("properties", "text", "markup"),
    [
        ({"1013": b"<h1>Pier</h1><p>Mend it.</p>"}, "# Pier\n\nMend it.", "markdown"),
        ({"1000": "Plain.", "1013": b"<p>Rich</p>"}, "Plain.", "lines"),
        ({"1009": rich(literal(RICH), len(RICH))}, "The plank is loose.", "markdown"),
        ({"1009": rich(RICH, len(RICH), b"MELA")}, "The plank is loose.", "markdown"),
        # the dictionary begins with the same six bytes
        ({"1009": rich(b"\1\0\x04" + RICH[6:13] + literal(RICH[13:]), len(RICH))}, "The plank is loose.", "markdown"),
        ({}, "", "lines"),
    ],
)
def test_the_body_of_a_message_of_outlook(properties: dict[str, str | bytes], text: str, markup: str) -> None:
    document = msg.read(outlook({"0037": "Pier", **properties}), LIMITS)
    assert (document.title, document.markup) == ("Pier", markup)
    assert document.text.strip() == f"Subject: Pier\n\n{text}".strip()


def test_compressed_text_that_says_it_is_huge_is_refused() -> None:
    with pytest.raises(FileError) as caught:
        msg.read(outlook({"1009": rich(b"\0a", 60_000_000)}), LIMITS)
    assert caught.value.reason is Reason.TOO_LARGE


def test_compound_files_are_known_by_their_streams() -> None:
    sheet = workbook("A", [["a"]])
    assert detect("a.bin.txt", compound({"WORKBOOK": sheet})).format.type == "xls"
    slides = detect("a.txt", compound({"Workbook": sheet, "PowerPoint Document": b"x"}))
    assert slides.failure is not None
    assert slides.failure.reason is Reason.UNSUPPORTED_TYPE
    assert detect("a.txt", outlook({"0037": "x"})).mime == "application/vnd.ms-outlook"


def test_a_mailbox_without_messages_is_one() -> None:
    assert (
        mbox.read(b"Subject: One\n\nFrom now on: a text.\n", LIMITS).text
        == "# One\n\nSubject: One\n\nFrom now on: a text."
    )


@pytest.mark.parametrize(("maximum", "is_read"), [(2, True), (1, False)])
def test_messages_are_counted(maximum: int, is_read: bool) -> None:
    data = b"From a Mon May 6 10:00:00 2024\nSubject: a\n\nb\n" * 2
    if is_read:
        assert mbox.read(data, Limits(max_pages=maximum)).text.count("# a") == 2
    else:
        with pytest.raises(FileError):
            mbox.read(data, Limits(max_pages=maximum))
