"""Quick looks at a text find what the patterns find that they replace."""

from __future__ import annotations

from worker.parse.ocr.scans import _NON_TEXT, _non_text_count
from worker.parse.pdf.right_to_left import _ANY_ARABIC, _may_be_arabic

#: All of the first two thousand characters, and those at the bounds of what is no text.
OTHERS = (0x2022, 0xD7FF, 0xDFFF, 0xE000, 0xF8FF, 0xF900, 0xFFFC, 0xFFFD, 0xFFFE, 0x10000, 0x1F600, 0x10FFFF)
TEXTS = [f"pier {chr(code)}" for code in (*range(0x800), *OTHERS)]


def test_controls_private_and_replaced_characters_are_counted() -> None:
    assert [text for text in TEXTS if _non_text_count(text) != len(_NON_TEXT.findall(text))] == []


def test_no_arabic_is_missed() -> None:
    assert [text for text in TEXTS if _ANY_ARABIC.search(text) and not _may_be_arabic(text)] == []
