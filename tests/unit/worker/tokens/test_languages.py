# ruff: noqa: RUF001 - texts in other scripts
"""Which language a document is written in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.tokens.languages import (
    DEFAULT,
    MIN_LETTERS,
    NONE,
    candidates,
    language_for,
    language_of,
    script_of,
    stop_words,
)

GERMAN = "Die Pumpe fördert das Wasser aus dem Keller, bis der Schwimmer sie abschaltet."


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", GERMAN),
        ("de", "MIT License\n" + "\n".join([GERMAN] * 99)),
        ("en", "The pump lifts the water out of the cellar until the float switches it off."),
        ("en", "Install with pip, then run make demo; see the API reference for all flags."),
        ("es", "La bomba saca el agua del sótano hasta que el flotador la apaga."),
        ("nl", "De pomp haalt het water uit de kelder tot de vlotter hem uitschakelt."),
        ("vi", "Máy bơm hút nước ra khỏi tầng hầm cho đến khi phao ngắt."),
        ("ru", "Насос откачивает воду из подвала, пока поплавок его не выключит."),
        ("uk", "Насос відкачує воду з підвалу, доки поплавець його не вимкне."),
        ("fa", "پمپ آب را از زیرزمین می‌کشد تا شناور آن را خاموش کند."),
        ("el", "Η αντλία βγάζει το νερό από το υπόγειο."),
        ("hi", "पंप तहखाने से पानी निकालता है।"),
        (NONE, "水泵把地下室的水抽出来，直到浮子把它关掉为止。"),
        (NONE, "The pump: 水泵把地下室的水抽出来，直到浮子把它关掉为止。"),
        (DEFAULT, "水泵把地下室的水抽出来。"),
        (DEFAULT, "0x3f 1 2 3 {} [] ()"),
        (DEFAULT, ""),
    ],
)
def test_the_language_of_a_document(language: str, text: str) -> None:
    assert language_of(text) == language


def test_a_text_needs_some_letters_to_tell() -> None:
    letters = "насосоткачиваетводуизподвала"
    assert language_of(letters[: MIN_LETTERS - 1]) == DEFAULT
    assert language_of(letters[:MIN_LETTERS]) != DEFAULT


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_has_a_language(text: str) -> None:
    assert language_for("latin", language_of(text))


@pytest.mark.parametrize(
    ("script", "first", "last", "after"),
    [
        ("latin", "\u00c0", "\u024f", "\u0250"),
        ("latin", "\u1e00", "\u1eff", None),
        ("cyrillic", "\u0400", "\u052f", None),
        ("arabic", "\u0620", "\u06ff", "\u0700"),
        ("arabic", "\u0750", "\u077f", "\u0780"),
        ("devanagari", "\u0900", "\u097f", "\u0980"),
        ("greek", "\u0370", "\u03ff", None),
        ("greek", "\u1f00", "\u1fff", "\u2c00"),
        ("armenian", "\u0530", "\u058f", "\u0590"),
        ("tamil", "\u0b80", "\u0bff", "\u0c00"),
    ],
)
def test_a_word_has_the_script_of_its_first_letter(script: str, first: str, last: str, after: str | None) -> None:
    assert {script_of(f"{letter}語") for letter in (first, last)} == {script}
    assert after is None or script_of(after) == "other"


def test_words_of_another_script_have_the_first_language_of_theirs() -> None:
    assert language_for("latin", "de") == "de"
    assert language_for("latin", "ru") == "en"
    assert language_for("cyrillic", "uk") == "uk"
    assert language_for("cyrillic", "de") == "ru"
    assert candidates("latin", ["de", "ru"]) == ["de", "en"]
    assert candidates("latin", ["de"]) == ["de"]
    assert candidates("latin", []) == ["en"]


def test_lists_of_stop_words_hold_words() -> None:
    assert {"the", "of"} <= stop_words()["en"]
    assert {"der", "über"} <= stop_words()["de"]
    assert all(word.isalpha() and word == word.lower() for words in stop_words().values() for word in words)
