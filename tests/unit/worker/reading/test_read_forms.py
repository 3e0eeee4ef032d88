r"""What texts of each format are read as: for the model, and for words.

A column of words names those that the words of a text have, and those that they have not.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.formats.registry import BY_TYPE
from worker.reading import embedded, words
from worker.tokens.keywords import keywords_of


def tokens(type_: str, text: str) -> set[str]:
    found = keywords_of("", "", words(type_, text), "en")
    return {*found.text.split(), *found.code.split()}


READ = [
    # JSON
    ("json", r'"Schr\u00f6derweg"', '"Schröderweg"'),
    ("json", r'"\u5927\u718a\u732b"', '"大熊猫"'),
    ("json", r'"first\nsecond\tthird"', '"first\nsecond\tthird"'),
    ("json", r'"\ud83d\ude00 \u2019\u003c"', '"😀 \u2019<"'),
    ("json", r'"C:\\newdir\\table"', r'"C:\newdir\table"'),
    ("json", r'"\\bword\\d"', r'"\bword\d"'),
    ("json", r'"{\"name\": \"Schr\\u00f6der\"}"', '"{"name": "Schröder"}"'),
    ("json", r'"a\/b"', '"a/b"'),
    ("json", '"M&uuml;nchner &amp; Söhne"', '"Münchner & Söhne"'),
    ("json", r'"\u0000\ud800"', r'"\u0000\ud800"'),
    ("json", r'"\\u0000"', r'"\u0000"'),
    ("jsonl", r'{"a": "\u5927"}', '{"a": "大"}'),
    # configuration and text
    ("yaml", r'a: "Schr\u00f6derweg \xfcber"', 'a: "Schröderweg über"'),
    ("toml", r'a = "Schr\u00f6derweg \U00005927"', 'a = "Schröderweg 大"'),
    ("code", r"street=Schr\u00f6derweg", "street=Schröderweg"),
    ("text", r'{"msg":"it\u2019s Schr\u00f6der"}', '{"msg":"it\u2019s Schröder"}'),
    ("csv", "1,M&uuml;nchner,&#252;ber,&#xfc;ber", "1,Münchner,über,über"),
    ("markdown", "M&uuml;nchner Schl&ouml;sser", "Münchner Schlösser"),
    ("markdown", "Donau&shy;dampf", "Donaudampf"),
    ("markdown", r"snake\_case", "snake_case"),
    ("markdown", "<ruby>京<rt>きょう</rt>都<rp>(</rp><rt>と</rt><rp>)</rp></ruby>へ", "京都へ"),
    ("xml", "<p>M&#252;nchner</p>", "<p>Münchner</p>"),
    ("text", "?a=1&copy=2 &unknown; AT&T", "?a=1&copy=2 &unknown; AT&T"),
    # code: only letters
    ("code", r'"Schr\u00f6der" "\u{f6}a" "\x{f6}a"', '"Schröder" "öa" "öa"'),
    ("code", r'"M\xc3\xbcnchen" "M\303\274nchen" "M\xfcnchen"', '"München" "München" "München"'),
    ("code", r'"\N{LATIN SMALL LETTER O WITH DIAERESIS}"', '"ö"'),
    ("code", r"'\\u00e4'", "'ä'"),
    ("code", r'"\x1b[0m" "\033[1m" "\u2019" "\x89PNG"', r'"\x1b[0m" "\033[1m" "\u2019" "\x89PNG"'),
    ("code", r'"[\xc0-\xff]" "\1\2" "\xff\xfe"', r'"[\xc0-\xff]" "\1\2" "\xff\xfe"'),
    ("code", r'"first\nsecond" C:\newdir\table \bword\d', r'"first\nsecond" C:\newdir\table \bword\d'),
    ("code", r"M&uuml;nchner", "M&uuml;nchner"),
    # LaTeX and BibTeX
    ("tex", r"G{\"o}del M\"uller \"{U}ber", "Gödel Müller Über"),
    ("tex", r"caf\'e caf\'{e} na\"{\i}ve \`a \^o \~n \=a \.z", "café café naïve à ô ñ ā ż"),
    ("tex", r"gar\c{c}on \c c \v{s} \H{o} \u{g} \r{a} \k{a} \d{h}", "garçon ç š ő ğ å ą ḥ"),
    (
        "tex",
        r"Stra{\ss}e Stra\ss e Stra\ss{}e \L{}\'od\'z {\O}re \AA ngstr\"om",
        "Straße Straße Straße Łódź Øre Ångström",
    ),
    ("tex", r"Donau\-dampf\-schiff snake\_case AT\&T", "Donaudampfschiff snake_case AT&T"),
    ("tex", r"\textbf{\"O}sterreich \emph{Foo}bar \cite{Foo}", r"\textbf{Ö}sterreich \emph{Foo}bar \cite{Foo}"),
    ("bibtex", r"title = {{K}alman and {NASA}, Mc{D}onald}", "title = {Kalman and {NASA}, McDonald}"),
    ("bibtex", r"{M}\'alaga", "Málaga"),
    ("tex", r"\frac{a}{b} \begin{itemize} x_{i} \alpha\beta", r"\frac{a}{b} \begin{itemize} x_{i} \alpha\beta"),
]

FOUND = [
    ("json", r'"first\nsecond"', {"first", "second", "nsecond"}),
    ("json", r'"C:\newdir\table"', {"newdir", "table"}),
    ("json", r'"C:\\newdir\\table"', {"newdir", "table"}),
    ("json", r'"\\bword\\d"', {"bword"}),
    ("text", r"level=error first\nsecond\tthird", {"first", "second", "third"}),
    ("code", r'"first\nsecond"', {"first", "second", "nsecond"}),
    ("code", r"C:\newdir\table", {"newdir", "table"}),
    ("code", r"C:\php\xdebug", {"xdebug"}),
    ("code", r"\bword\d", {"bword", "word"}),
    ("code", "M&uuml;nchner it\\u2019s", {"munchner", "münchner"}),
    ("yaml", r'a: "first\nsecond"', {"second"}),
    ("tex", r"\textbf{x} G{\"o}del", {"textbf", "gödel"}),
]


@pytest.mark.parametrize(("type_", "written", "read"), READ)
def test_a_text_is_read_as_its_format_says(type_: str, written: str, read: str) -> None:
    assert embedded(type_, written) == read


@pytest.mark.parametrize(("type_", "written", "expected"), FOUND)
def test_words_are_found_in_each_reading(type_: str, written: str, expected: set[str]) -> None:
    assert expected <= tokens(type_, written)


@pytest.mark.parametrize("type_", sorted(BY_TYPE))
def test_a_plain_text_is_the_same_object(type_: str) -> None:
    text = "Nothing here is written otherwise than it is read: 3 < 4, a/b, x_y, Ω, 大熊猫."
    assert embedded(type_, text) is text


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_what_json_escapes_is_read(value: object) -> None:
    def strings(part: object) -> list[str]:
        if isinstance(part, str):
            return [part]
        if isinstance(part, dict):
            return [text for key, inner in part.items() for text in (key, *strings(inner))]
        return [text for inner in part for text in strings(inner)] if isinstance(part, list) else []

    read = embedded("json", json.dumps(value))
    for text in strings(value):
        # escapes and entities within are read, too, and what cannot be shown stays escaped
        if text.isprintable() and not set(text) & set("\\&"):
            assert text in read
