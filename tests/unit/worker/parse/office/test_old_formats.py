"""Texts from programs of the last century, and documents of early word processors."""

from __future__ import annotations

import random
import struct

import olefile
import pytest

from tests.compound import compound
from tests.contract.samples import of
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.office import rtf
from worker.parse.office.compound import without_signs
from worker.parse.office.doc import _FIELD

LIMITS = Limits()


def test_lines_of_old_macintoshes_are_lines() -> None:
    assert decode(b"one\r\rtwo\r") == "one\n\ntwo\n"
    assert decode(b"one\r\ntwo\rthree") == "one\r\ntwo\rthree"


def test_utf7_is_known_by_its_mark() -> None:
    assert decode(b"+/v8-Hallo +AOQ- Welt") == "Hallo ä Welt"
    assert decode(b"Hallo +AOQ-") == "Hallo +AOQ-"
    assert decode(b"+/v8-\xff and more of it") != ""


@pytest.mark.parametrize(
    ("head", "body", "text"),
    [
        (r"\mac", r"caf\'8e", "café"),
        (r"\pc", r"caf\'82", "café"),
        (r"\ansi{\fonttbl{\f0\fcharset78 Osaka;}}", r"\f0 \'93\'fa\'96\'7b", "日本"),
        (r"\ansi{\fonttbl{\f0\fcharset82 Peninim;}}", r"\f0 \'f9\'ec", "של"),
        (r"\ansi\ansicpg10007", r"\'8f\'f0", "Пр"),
    ],
)
def test_rich_text_of_the_macintosh_is_read(head: str, body: str, text: str) -> None:
    assert rtf.read(f"{{\\rtf1{head}{{\\fonttbl}}{body}}}".encode(), LIMITS).text.casefold() == text.casefold()


@pytest.mark.parametrize(
    ("fonts", "body", "text"),
    [
        (r"{\f0 Arial;}{\f1\fcharset204 Arial CYR;}", r"\f0 caf\'e9 \f1\'e4\'e0\f0\'e9", "café даé"),
        (r"\f0\fnil Arial;\f1\fcharset161 Greek;", r"caf\'e9 {\f1\'c1}\f0\'e9", "café Αé"),
        ("{\\f0\\fnil\n\\fcharset204{\\*\\fname Arial;}Arial CYR;}", r"\f0\'e4\'e0", "да"),
        (r"{\f0\fcharset2 Symbol;}{\f1 Arial;}", r"\f1\'e9", "é"),
    ],
)
def test_a_font_without_characters_of_its_own_has_the_documents(fonts: str, body: str, text: str) -> None:
    source = rf"{{\rtf1\ansi\ansicpg1252\deff0{{\fonttbl{fonts}}}{body}}}"
    assert rtf.read(source.encode(), LIMITS).text == text


@pytest.mark.parametrize("mark", [r"{\footnote", r"{\*\footnote"])
def test_footnotes_of_rich_text_stand_where_they_are_referred_to(mark: str) -> None:
    raw = rf"{{\rtf1\ansi One{mark} \pard{{\i that}} is, \}} two}}. Three{mark} never closed"
    assert rtf.read(raw.encode(), LIMITS).text == "One (that is, } two). Three"


BOX = r"{\shp{\*\shpinst\shptop0{\sp{\sn a}{\sv 1}}{\shptxt \pard{\i Ebb} \} 1\par }}"
BOX += r"{\shprslt{\*\do{\dptxbxtext Ebb 1}}}}"


@pytest.mark.parametrize("shapes", [BOX, rf"{{\shpgrp{{\*\shpinst {BOX}}}}}", rf"{BOX}{{\shp{{\*\shpinst\shptop0}}}}"])
def test_texts_in_boxes_of_rich_text_are_read_once(shapes: str) -> None:
    raw = rf"{{\rtf1\ansi One {shapes}two.}}"
    assert rtf.read(raw.encode(), LIMITS).text.split() == ["One", "Ebb", "}", "1", "two."]


def test_edges_of_pages_follow_rich_text_once() -> None:
    edges = r"{\header \pard Harbour \b office\par }{\headerr \pard Harbour office\par }"
    edges += r"{\footerf \pard Page {\field{\*\fldinst PAGE}{\fldrslt 3}}\par }{\footerl Tide {table}}"
    raw = rf"{{\rtf1\ansi {edges}\pard\outlinelevel0 Ebb\par and flow}}"
    found = rtf.read(raw.encode(), LIMITS).text
    assert found == "# Ebb\n\nand flow\n\nPage header: Harbour office\n\nPage footer: Tide table"


def test_what_is_deleted_from_rich_text_is_left_out() -> None:
    raw = r"{\rtf1\ansi One {\rtlch\af0 \deleted\revauthdel1 {\b two} }three{\deleted0  four}}"
    assert rtf.read(raw.encode(), LIMITS).text == "One three four"


def test_words_of_two_columns_in_rich_text_are_two() -> None:
    assert rtf.read(rb"{\rtf1\ansi Ebb\column Flow}", LIMITS).text == "Ebb\nFlow"


@pytest.mark.parametrize(
    "field",
    [
        'HYPERLINK "http://example.org/a" ',
        'HYPERLINK \\l "_Toc1" ',
        "PAGEREF _Toc123 \\h ",
        "REF _Ref99 \\h \\* ",
        'TOC \\o "1-3" \\h \\z \\u ',
        "PAGE  \\* MERGEFORMAT ",
        "SEQ Figure \\* ARABIC ",
    ],
)
def test_what_a_field_is_told_to_show_is_no_text(field: str) -> None:
    assert _FIELD.sub("", f"see {field}shown, and so on") == "see shown, and so on"


@pytest.mark.parametrize("text", ["PAGE 3 of the REF manual", "HYPERLINK is a field", "TOC of all", "SEQ 7"])
def test_words_that_fields_have_as_well_are_text(text: str) -> None:
    assert _FIELD.sub("", text) == text


def test_paragraphs_of_the_outline_are_headings() -> None:
    styles = r"{\stylesheet{\s1\outlinelevel0 heading 1;}}"
    first = r"\pard\s1\outlinelevel0\b Harbours\b0\par\pard\outlinelevel9 # Ships rest here.\par "
    second = r"{\listtext 1.\tab}\pard\outlinelevel1{\b Fog}\par\pard\outlinelevel1\par\pard It is thick.\par"
    found = rtf.read(rf"{{\rtf1\ansi{styles}{first}{second}}}".encode(), LIMITS)
    assert found.text == "# Harbours\n\n\\# Ships rest here.\n\n## 1. Fog\n\n\nIt is thick."
    assert found.markup == "markdown"


def test_only_signs_in_the_text_are_taken_out() -> None:
    data = of("pier.doc")
    changed = [(old, new) for old, new in zip(data, without_signs(data), strict=True) if old != new]
    # two comments, each marked in the text and in itself, an image, and a column break
    assert sorted(changed) == [(0x01, 0x02), *[(0x05, 0x02)] * 4, (0x0E, 0x0B)]
    assert without_signs(of("doc/diary.doc")) == of("doc/diary.doc")


@pytest.mark.parametrize(
    ("text", "expected", "encoding"),
    [
        # letters whose low byte, or whose high byte before a zero, is that of a sign
        ("ЖИЙ \x01ăЛ\x0eฎĀ", "ЖИЙ \x02ăЛ\x0bฎĀ", "utf-16-le"),
        ("Tide\x01\x0e\x0b", "Tide\x02\x0b\x0b", "cp1252"),
    ],
)
def test_letters_that_share_a_byte_with_a_sign_stay(text: str, expected: str, encoding: str) -> None:
    encoded = text.encode(encoding)
    stream = struct.pack("<24xII", 32, 32 + len(encoded)) + encoded + b"\x01 is behind the text"
    with olefile.OleFileIO(without_signs(compound({"WordDocument": stream}))) as document:
        found = document.openstream("WordDocument").read()
    assert found == stream[:32] + expected.encode(encoding) + stream[32 + len(encoded) :]


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_document_does_no_harm(seed: int) -> None:
    chance, data = random.Random(seed), bytearray(of("pier.doc"))
    for _ in range(chance.choice([1, 10, 1000])):
        data[chance.randrange(chance.choice([128, 2048, len(data)]))] = chance.choice([0, 1, 0xFE, 0xFF])
    del data[chance.choice([len(data), 600, 9000]) :]
    assert len(without_signs(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(data[8:]))) == len(data)
