"""Texts in the usual encodings of their languages: a paragraph and a note of three lines each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.mail import email

#: A paragraph and a note by language.
TEXTS: dict[str, tuple[str, str]] = json.loads(Path(__file__).with_name("encodings.json").read_text())
LANGUAGES = {
    "iso8859-1 iso8859-15 cp1252 cp437 cp850 mac-roman": "de fr",
    "iso8859-1 cp1252 cp850 mac-roman": "es pt da sv",
    "cp1252 mac-roman": "en",
    "iso8859-2 cp1250 cp852": "pl cs hu hr",
    "iso8859-2 cp1250": "ro",
    "iso8859-5 cp1251 koi8-r cp866 mac-cyrillic": "ru",
    "iso8859-5 cp1251 cp866": "bg",
    "iso8859-5 cp1251 koi8-u": "uk",
    "iso8859-7 cp1253": "el",
    "iso8859-9 cp1254": "tr",
    "cp1255": "he",
    "cp1256": "ar",
    "shift_jis cp932 euc_jp iso2022_jp": "ja",
    "gbk gb18030": "zh",
    "big5": "zht",
    "euc_kr cp949": "ko",
    "utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be": "de pl ru el ar ja zh ko",
}
CASES = [(e, lang) for encodings, some in LANGUAGES.items() for e in encodings.split() for lang in some.split()]


@pytest.mark.parametrize(("encoding", "language"), CASES)
@pytest.mark.parametrize("kind", [0, 1], ids=["paragraph", "note"])
def test_a_language_is_read_in_its_encodings(encoding: str, language: str, kind: int) -> None:
    data = TEXTS[language][kind].encode(encoding, "replace")
    assert decode(data) == TEXTS[language][kind].encode(encoding, "replace").decode(encoding)


@pytest.mark.parametrize(
    "text", ["20 °C", "© 2024 Müller\n" * 30, "caf\xe9", "It\u2019s fine.", "x = 1  # prüfen", "Zoë,Köln\n"]
)
def test_where_little_is_foreign_the_commonest_encoding_is_taken(text: str) -> None:
    assert decode(text.encode("cp1252")) == text


@pytest.mark.parametrize(
    ("name", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "“fine” — 5 €"),
        ("gb2312", "gbk", "朱镕基"),
        ("shift_jis", "cp932", "①株式会社㈱"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
    ],
)
def test_what_programs_write_under_the_name_of_an_encoding_is_read(name: str, encoding: str, text: str) -> None:
    page = f'<meta charset="{name}"><p>{text}</p>'
    assert decode(page.encode(encoding)) == page
    message = f"Subject: s\nContent-Type: text/plain; charset={name}\n\n".encode() + text.encode(encoding)
    assert email.read(message, Limits()).text.endswith(text)


def test_text_with_a_zero_byte_is_no_chinese() -> None:
    data = "Die Größe der Straße\0 und noch mehr ".encode("cp1252")
    for padded in (data, data + b" ", b"x" + data, b"x" + data + b" "):
        with pytest.raises(Exception, match="NUL"):
            decode(padded)


def processor_time(work: Callable[[], object]) -> float:
    """The lowest of three."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


@pytest.mark.parametrize("text", ["a word " * 150_000 + "caf\xe9", "a" * 1000 + ("\xe9" + "a" * 2000) * 500])
def test_a_long_line_of_ascii_is_looked_through_once(text: str) -> None:
    data = text.encode("cp1252")
    assert decode(data) == text
    assert processor_time(lambda: decode(data)) < 50 * processor_time(lambda: sum(data))


def test_what_is_foreign_far_apart_is_looked_at_with_the_line_around_it() -> None:
    text = "".join(f"{'plain ' * 1000}\n{sentence}.\n" for sentence in TEXTS["ru"][0].split(".") * 3)
    assert decode(text.encode("koi8-r")) == text


def test_a_very_short_table_in_japanese_is_read() -> None:
    table = "名前,年齢,住所\n佐藤太郎,30,東京\n鈴木英子,25,大阪\n髙橋淳,35,名古屋\n"
    assert decode(table.encode("cp932")) == table
