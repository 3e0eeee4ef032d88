r"""What texts of each format are read as: for the model, and for words.

A column of words names those that the words of a text have, and those that they have not.
"""

from __future__ import annotations

import json
import random
import tracemalloc
from base64 import b64encode
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker import reading
from worker.formats.registry import BY_TYPE
from worker.reading import ReadText, applied, as_read, embedded, full, read_form, tex, tex_signs, way_of, words
from worker.reading.blobs import blobs
from worker.reading.edits import Edit, merged
from worker.tokens.keywords import keywords_of


def tokens(type_: str, text: str) -> set[str]:
    found = keywords_of("", "", words(type_, text), "en")
    return {*found.text.split(), *found.code.split()}


#: What escapes and their neighbours consist of.
PARTS = (
    *'\\%&=<>/_-{}":;?',
    *("\n", "\r\n", " ", "\t", "word", "C:\\", "é", "7", "amp;", "uuml;", "#252;", "xn--mnchen-3ya", "=?utf-8?Q?a?="),
    *(
        "n",
        "u00e4",
        "U000000e4",
        "x41",
        "N{U+00FC}",
        "303",
        "00e4",
        "C3%BC",
        "20",
        "25C3",
        "C3=BC",
        "rt>",
        "Ruby>",
        "ss",
        "uu00f6",
        "C3\\B6",
        "5927\\718a",
        "char'366",
    ),
    *("<U+00F6>", "uuml", "#252", "\n\t", "^^c3^^b6", "^^^^5927", '"Uber', '"s', "$'\\303\\266'"),
    *("`", "'", "#", "`u{f6}", "#246", "246", "1055", "[31m", "《", "とう》", "京", ":: R8O2ZGVs", "U&'"),
)
#: The beginning of a line that a mail has to break.
LONG = "Ein langer Satz, " * 4
NO_MAIL = "=C3=B6 A1=C3=B6 LEVEL=DEBUG FOO=\nBAR=1 =?x?Q?a?= a==b"
NO_ADDRESS = "x%20y '%density' 100%DE '%de%' %C3 %E2%82%AC a%fcb"
#: Names of folders, numbers of issues, possessives, colours, bytes that are no text.
NO_DIALECT = (
    r"C:\246\2024\1055 src\2023\2024 l'#246 #246's '#333' '#246' a\303 \240\245 x\2 \d{2} \cd `u{zz} U&'\d83d' '\f0 x'"
)
#: Folders whose names are the first digits of hashes.
NO_OCTETS = (
    r"C:\fa\c3\b6 D:\data\c3\a4 \\host\c3\a4 p=C:\a\c3\a4 dir\sub\c3\b6 dir\fa\c3\b6 cache\d0\b0 x\da\ba '\8000\9000'"
)
#: Parameters of addresses, variables of C, references to issues.
NO_ENTITY = "?a=1&auml=2&aring1=3 x&uuml=1 &ether &oslash &#1234 a&#65b a&acute foo&#1234bar &#1234x &#592x"
#: Quoted words, and inches.
NO_BABEL = r'"Only" "this" and "Uber", "ubiquitous" "upper" "office" "alter" "Order" "all" 5"s the "class"s name'
#: Quotations of several words, and words of English that begin like German ones. They are quoted up to another line.
NO_GERMAN = r"""the boss"s and John"s "Uber drivers" "Olson and G{\"o}del", "Alter ego" ("Oldies, but goldies").
"Ubisoft
"Alternatives
"Alterations
"Altered
"Olson
"Olmec
"Olfactory
"Olbers
"Ostler
"""
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
    ("json", r'"a\u0009b\u000ac"', '"a\tb\nc"'),
    ("json", r'"\uf0b7item \ufeffname"', '"\uf0b7item \ufeffname"'),
    ("json", r'"\u5927\u0000\u732b"', '"大 猫"'),
    # configuration and text
    ("yaml", r'a: "Schr\u00f6derweg \xfcber"', 'a: "Schröderweg über"'),
    ("yaml", r'a: "cr\xE9\xE9e"', 'a: "créée"'),
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
    ("code", r'"M\195\188nchen \229\164\167 \206\187" "\1\195 \195\303"', r'"München 大 λ" "\1\195 \195\303"'),
    ("code", r'"M\U00fcnchen" "\U00f6ffentlich" "\U00005927" C:\Users', r'"München" "öffentlich" "大" C:\Users'),
    ("code", r'"\N{LATIN SMALL LETTER O WITH DIAERESIS}"', '"ö"'),
    ("code", r"'\\u00e4'", "'ä'"),
    ("code", r'"\x1b[0m" "\033[1m" "\u2019" "\x89PNG"', r'"\x1b[0m" "\033[1m" "\u2019" "\x89PNG"'),
    ("code", r'"[\xc0-\xff]" "\1\2" "\xff\xfe"', r'"[\xc0-\xff]" "\1\2" "\xff\xfe"'),
    ("code", r'"first\nsecond" C:\newdir\table \bword\d', r'"first\nsecond" C:\newdir\table \bword\d'),
    ("code", r'"[\u0590-\u05ff\u0980-\u0b7f]" "\u5927\u0000"', r'"[\u0590-\u05ff\u0980-\u0b7f]" "\u5927\u0000"'),
    ("code", r"M&uuml;nchner", "M&uuml;nchner"),
    ("code", r'"\110\145\154\154\157" "\x48\145\154"', '"Hello" "Hel"'),
    # LaTeX and BibTeX
    ("tex", r"G{\"o}del M\"uller \"{U}ber", "Gödel Müller Über"),
    ("tex", r"caf\'e caf\'{e} na\"{\i}ve \`a \^o \~n \=a \.z", "café café naïve à ô ñ ā ż"),
    ("tex", r"gar\c{c}on \c c \v{s} \H{o} \u{g} \r{a} \k{a} \d{h}", "garçon ç š ő ğ å ą ḥ"),
    (
        "tex",
        r"Stra{\ss}e Stra\ss e Stra\ss{}e \L{}\'od\'z {\O}re \AA ngstr\"om",
        "Straße Straße Straße Łódź Øre Ångström",
    ),
    ("tex", r"Donau\-dampf\-schiff snake\_case AT\&T shelf\/ful", "Donaudampfschiff snake_case AT&T shelfful"),
    ("tex", r"Garc\'\i a Garc{\'\i}a STRA\SS E \IJ{}ssel", "García García STRASSE IJssel"),
    ("bibtex", r"Nguy{\~{\^e}}n Nguy\~{\^{e}}n Ph\h{o} Ti{\'\^e}n", "Nguyễn Nguyễn Phỏ Tiến"),
    ("tex", r"\textbf{\"O}sterreich \emph{Foo}bar \cite{Foo}", r"\textbf{Ö}sterreich \emph{Foo}bar \cite{Foo}"),
    ("bibtex", r"title = {{K}alman and {NASA}, Mc{D}onald}", "title = {Kalman and {NASA}, McDonald}"),
    ("bibtex", r"{M}\'alaga", "Málaga"),
    ("tex", r'M"uller gr"o"sere Donau"-dampf"|schiff', "Müller größere Donaudampfschiff"),
    ("tex", r'He said "abc" and "a word"s end.', r'He said "abc" and "a word"s end.'),
    (
        "tex",
        r"1990\textendash 95 \textquotedblleft Stra\ss e\textquotedblright{} \textbf{x}",
        "1990\u201395 “Straße” \\textbf{x}",
    ),
    ("bibtex", r"M^^fcller ^^41 ^^zz ^^d7 x^^2", r"Müller ^^41 ^^zz ^^d7 x^^2"),
    # bytes in addresses
    (
        "markdown",
        "https://de.wikipedia.org/wiki/M%C3%BCnchen_%28Stadt%29",
        "https://de.wikipedia.org/wiki/München_%28Stadt%29",
    ),
    ("json", '"/w/%E5%A4%A7%e7%86%8a?q=%25C3%25A4h"', '"/w/大熊?q=äh"'),
    ("code", 'url = "/caf%C3%A9/M%FCnchen/%u00FCber"', 'url = "/café/München/über"'),
    ("csv", "1,https://a.org/Stra%C3%9Fe", "1,https://a.org/Straße"),
    ("code", NO_ADDRESS, NO_ADDRESS),
    ("markdown", "https://www.xn--mnchen-3ya.de/Mu%CC%88hle", "https://www.münchen.de/Mu\u0308hle"),
    ("text", "xn--a xn--99999999 axn--", "xn--a xn--99999999 axn--"),
    ("text", "M&amp;uuml;nchen &amp;amp; AT&amp;T; &amp;unknown;", "München & AT&T; &unknown;"),
    ("code", r"gr\N{U+00FC}n", "grün"),
    # mails and cards
    ("text", "N;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=C3=B6rg", "N;ENCODING=QUOTED-PRINTABLE:Müller;Jörg"),
    ("text", f"{LONG}gro=C3=\n=9Fer Umbruch", f"{LONG}großer Umbruch"),
    (
        "text",
        f"{LONG}Donau=\ndampfschiff M=FCnchen",
        f"{LONG}Donaudampfschiff München",
    ),
    ("text", "Subject: =?utf-8?Q?M=C3=BCnchner_Stra=C3=9Fe?= =?UTF-8?B?w7xiZXI=?=", "Subject: Münchner Straßeüber"),
    ("text", NO_MAIL, NO_MAIL),
    # style sheets, and words across the ends of lines
    ("code", r'content: "Gr\00f6\0000dfe \0141 \00df en"', 'content: "Größe \\0141 ßen"'),
    ("code", r'"\0" "\0041" "\012" "\00304,text" "\033[0m"', r'"\0" "\0041" "\012" "\00304,text" "\033[0m"'),
    ("yaml", 'a: "Donau\\\n    dampf\\\r\n  schiff"', 'a: "Donaudampfschiff"'),
    ("tex", r"\frac{a}{b} \begin{itemize} x_{i} \alpha\beta", r"\frac{a}{b} \begin{itemize} x_{i} \alpha\beta"),
    ("tex", r"\ruby{京}{きょう}都 \ruby[g]{東|京}{とう|きょう}", "京都 東京"),
    ("bibtex", r"\textcommabelow{S}tefan Kauf{}laden \emph{}x", r"Ștefan Kaufladen \emph{}x"),
    # escapes of few languages
    ("code", '"G`u{f6}del `u{5927}`u{718a}"', '"Gödel 大熊"'),
    ("code", r'"\u{6771 4eac}"', '"東京"'),
    ("code", r'"G\246del Stra\223e na\239ve \382aba caf\233"', '"Gödel Straße naïve žaba café"'),
    ("code", r'"\1055\1088\1080\1074\1077\1090 \22823\29066 \915\952"', '"Привет 大熊 Γθ"'),
    (
        "text",
        "'G'#246'del' + #214'sterreich' + 'caf'#233 + 'x'#$6771#$4EAC'y'",
        "'Gödel' + Österreich' + 'café + 'x東京y'",
    ),
    ("code", r"U&'G\00f6del' U&'d\0061t\+000061' u&'\6771\4EAC'", "U&'Gödel' U&'data' u&'東京'"),
    ("code", r'content: "G\f6 del Gr\f6\df e" "\d6 sterreich"', 'content: "Gödel Größe" "Österreich"'),
    ("code", NO_DIALECT, NO_DIALECT),
    ("json", r'"b\"M\\xc3\\xbcnchen\" and \\346\\235\\261 \\x86 C:\\xdata"', '"b"München" and 東 \\x86 C:\\xdata"'),
    # values of directories and cards
    ("text", "ou:: TcO8bmNobmVyIFN\n 0cmHDn2U=\nsn: x", "ou:: Münchner Straße\nsn: x"),
    (
        "text",
        "FN;ENCODING=B:R8O2ZGVs N;ENCODING=b;CHARSET=UTF-8:TcO8bmNobmVy",
        "FN;ENCODING=B:Gödel N;ENCODING=b;CHARSET=UTF-8:Münchner",
    ),
    ("text", "a:: base b:: dGVzdA== Note:: word", "a:: base b:: dGVzdA== Note:: word"),
    # ruby text outside of Markdown
    ("xml", "<a><ruby>京<rt>きょう</rt>都<rt>と</rt></ruby>へ</a>", "<a>京都へ</a>"),
    ("json", r'"<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp></ruby>京 東<rt>とう<\/rt>京"', '"東京 東京"'),
    ("text", "\uff5c東京《とうきょう》都は東《とう》京", "東京都は東京"),
    ("markdown", "東《とう》京", "東京"),
    ("text", "《红楼梦》和《ハリー》, a《b》, <rt>12</rt>", "《红楼梦》和《ハリー》, a《b》, <rt>12</rt>"),
    ("xml", "<rt>京</rt><ruby>2.7</ruby>", "<rt>京</rt><ruby>2.7</ruby>"),
    ("markdown", "{漢字|かんじ}文化と{東京|とう|きょう}都", "漢字文化と東京都"),
    ("json", '"{東|とう}{京|きょう}都"', '"東京都"'),
    ("text", "{東|とう}京 {a|b} {東|x} |東|とう|", "東京 {a|b} {東|x} |東|とう|"),
    # C#, and letters of Windows
    ("code", r'"Gr\x00FC\x00DFe" "\x00C4pfel" "\x00FC" "\x00FCA"', r'"Grüße" "Äpfel" "\x00FC" "\x00FCA"'),
    ("code", r'"Petr\x9ealka" "c\x9cur" "\x9aab" "a\x92b"', r'"Petržalka" "cœur" "\x9aab" "a\x92b"'),
    ("json", r'"c\u009cur don\u0092t"', '"cœur don\u2019t"'),
    ("code", r"[\u0080-\u009f]", r"[\u0080-\u009f]"),
    ("markdown", "Petr&#158;alka don&#146;t &#x80; &#129;", "Petržalka don\u2019t € &#129;"),
    ("code", r'content: "\f6 ffentlich" "\fc ber"', 'content: "öffentlich" "über"'),
    # Java, R, shells, directories, fonts, Haskell
    ("code", r'"G\uu00f6del \uuu00f6ffentlich"', '"Gödel öffentlich"'),
    ("csv", "1,G<U+00F6>del,<U+5927><U+718A>,<U+00E4>", "1,Gödel,大熊,<U+00E4>"),
    ("text", r"'G'$'\303\266''del.txt' M$'\303\274'ller a $'\303\266'", "'Gödel.txt' Müller a $'ö'"),
    ("text", r"CN=G\C3\B6del\, Kurt,O=\c3\96sterreich C:\C3\A4", r"CN=Gödel\, Kurt,O=Österreich C:\C3\A4"),
    ("text", NO_OCTETS, NO_OCTETS),
    ("text", r"CN=Caf\C3\A9\, Gr\C3\BC\C3\9Fe,C:\x CN=\D0\98\D0\B2an", r"CN=Café\, Grüße,C:\x CN=Ивan"),
    ("text", r"CN=a\2ca\C3\A4mu\CC\88a\C3\A4", "CN=a\\2caämu\u0308aä"),
    ("code", r'font: "\5FAE\8F6F\96C5\9ED1", "\5b8b\4f53"', 'font: "微软雅黑", "宋体"'),
    ("code", r'a\5f3a\8b2c "\f101" "\5f3a\1b2c"', r'a\5f3a\8b2c "\f101" "\5f3a\1b2c"'),
    ("code", r'"Gr\252\223e" D:\252\223e', r'"Grüße" D:\252\223e'),
    # entities without their end, and of ampersands
    ("text", "M&uumlller caf&eacute und M&#252nchen M&#xFCnchen &ouml;l", "Müller café und München München öl"),
    ("json", '"M&amp;uumlller &amp;#252;ber &#38;uuml;bel &#x26;auml;hnlich"', '"M&uumlller über übel ähnlich"'),
    ("text", NO_ENTITY, NO_ENTITY),
    ("text", "Petr&#382alka &#591x", "Petržalka \u024fx"),
    ("opml", "- M&uuml;nchen: G&amp;ouml;del", "- München: Gödel"),
    # babel and numbers in LaTeX
    (
        "tex",
        r'"Uber "Osterreich, "offentliche "Arzte und "Au"serung',
        "Über Österreich, öffentliche Ärzte und Äußerung",
    ),
    ("tex", r'Ma"s und Fu"s. (gro"s)', "Maß und Fuß. (groß)"),
    ("tex", NO_BABEL, NO_BABEL),
    ("tex", NO_GERMAN, NO_GERMAN.replace(r"{\"o}", "ö")),
    (
        "tex",
        r""""Uber "ja" und "Olfarbe am Flu"s. "Ostliche "altere Br"ucke: "Uber alles"' "Offner "= x""",
        r"""Über "ja" und Ölfarbe am Fluß. Östliche ältere Brücke: Über alles"' Öffner "= x""",
    ),
    ("bibtex", 'title = "Ubung", a # "Ubung"', 'title = "Ubung", a # "Ubung"'),
    ("tex", r"""G\char"F6del {\char'366}l G\symbol{246}del \char246{}l""", "Gödel öl Gödel öl"),
    ("tex", r'\char65 \char"41 \chapter{a} \symbolic', r'\char65 \char"41 \chapter{a} \symbolic'),
    ("tex", "G^^^^00f6del G^^c3^^b6del ^^^^5927^^^^718a", "Gödel Gödel 大熊"),
    ("tex", "G^^c3^^b6del", "Gödel"),
    ("tex", "^^e5^^a4^^a7^^e7^^86^^8a", "大熊"),
    ("bibtex", "G&ouml;del &amp; M&#252;ller", "Gödel & Müller"),
]

FOUND = [
    ("json", r'"first\nsecond"', {"first", "second", "nsecond"}),
    ("json", r'"C:\newdir\table"', {"newdir", "table"}),
    ("json", r'"C:\\newdir\\table"', {"newdir", "table"}),
    ("json", r'"\\bword\\d"', {"bword"}),
    ("json", r'"{\"a\": \"first\\nsecond\"}"', {"first", "second"}),
    ("json", r'"\\bword\\d"', {"word"}),
    ("json", r'"\u001berror \u0000name"', {"error", "name"}),
    ("json", r'"C:\\Users\\u123456\\docs"', {"users", "u123456", "docs"}),
    ("text", r"C:\Users\u123456\docs C:\101\102\103", {"users", "u123456", "docs", "101", "103"}),
    ("text", r"first\\nsecond", {"second"}),
    ("code", r'"\x1berror \x0aname \xABbonjour"', {"error", "name", "bonjour"}),
    ("text", r"level=error first\nsecond\tthird", {"first", "second", "third"}),
    ("code", r'"first\nsecond"', {"first", "second", "nsecond"}),
    ("code", r"C:\newdir\table", {"newdir", "table"}),
    ("code", r"C:\php\xdebug", {"xdebug"}),
    ("code", r"\bword\d", {"bword", "word"}),
    ("code", "M&uuml;nchner it\\u2019s", {"munchner", "münchner"}),
    ("yaml", r'a: "first\nsecond"', {"second"}),
    ("code", "text=Donau\\\n    dampfer", {"donau", "dampfer", "donaudampfer"}),
    ("text", "/a/hello%20world%2Fagain", {"hello", "world", "again"}),
    ("code", "/a/M%C3%BCnchen%20Hauptbahnhof", {"münchen", "hauptbahnhof"}),
    ("tex", r"\textbf{x} G{\"o}del", {"textbf", "gödel"}),
    ("code", r"src\246files data\f6 more", {"246files", "srcöfiles", "f6"}),
    ("text", r"C:\Programme\246\2024\1055 D:\x\1700\1750", {"246", "2024", "1055", "1700", "1750"}),
    ("code", '"first`nsecond`tthird"', {"first", "second", "third"}),
    ("code", r'"\033[31mfailed\033[0m" "\e[1;32mpassed" "\x1b[0mplain"', {"failed", "passed", "plain"}),
    ("json", r'"\u001b[31mfailed\u001b[0m"', {"failed"}),
    ("text", "\x1b[31mfailed\x1b[0m a\x1b[Kb", {"failed", "ab"}),
    ("code", "<ruby>京<rt>きょう</rt>都</ruby>", {"京都"}),
    ("text", "童話《ももたろう》", {"童話", "ももたろう"}),
    ("code", r"a\C3\A4\x data\252\223end", {"c3", "a4"}),
    ("text", f"DESCRIPTION:{LONG[:55]}Zeich\r\n\ten und", {"zeichen", "zeich", "en"}),
    ("text", f"DESCRIPTION:{LONG[:55]}Zeich\n en und", {"zeichen"}),
]


@pytest.mark.parametrize(("type_", "written", "read"), READ)
def test_a_text_is_read_as_its_format_says(type_: str, written: str, read: str) -> None:
    assert embedded(type_, written) == read


@pytest.mark.parametrize(("type_", "written", "read"), READ)
def test_a_part_is_read_as_a_text_of_its_own(type_: str, written: str, read: str) -> None:
    form = read_form(type_, f"{written}\n{written}")
    assert form.part(written) == as_read(type_, written) == (None if read == written else read)
    assert form.words(written) == words(type_, written)


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


@pytest.mark.parametrize(("type_", "unit"), [
    ("json", r"\u4e2d"),
    ("json", r"\ud83d\ude00"),
    ("text", r"\xe4\xb8\xad"),
    ("markdown", "&amp;"),
])  # fmt: skip # a case a line
def test_a_run_of_escapes_takes_little_memory(type_: str, unit: str) -> None:
    """A character is read whose escapes are on both sides of where a long run is divided."""
    text = unit * 20_000
    tracemalloc.start()
    try:
        read = sum(len(edit.text) for edit in full(type_, text))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == 20_000
    # all escapes of a run at once took 3 to 27 MB
    assert peak < 2_000_000


#: Lines of blocks, runs that are bytes or none, and what stands between them.
LINES = (
    *(f"M{'A)' * 30}\n", f"z{'Ab1' * 21}xy\n", f"{'-' * 60}\n", f"{'Ab1z' * 16}\n", f"{'Zk29' * 160}\n", "0x1f, "),
    *(
        *(f"{16 * number:08x} {'1f ' * 16}\n" for number in range(4)),
        "\\x1f",
        r"\u00e4",
        "&uuml;",
        "%C3%BC",
        "word\n",
        "x",
    ),
)


@given(
    st.sampled_from([None, *sorted(BY_TYPE)]),
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from((1, 3, 12, 2_048))), max_size=8),
    st.integers(0, 200),
    st.integers(0, 200),
)
@example("text", [(LINES[0], 24)], 0, 0)
@example("text", [("word ", 1), (LINES[0], 3), ("words\n", 140)], 5, 0)
@example("text", [("x", 1), *((LINES[6 + number], 1) for number in range(4)), ("words\n", 160)], 1, 0)
@example("code", [("0x1f, ", 2_048)], 0, 2)
@example("code", [("0x1f,", 2_048)], 0, 1)
@example("code", [("0x1f,", 2_047)], 0, 1)
def test_a_part_is_read_as_if_nobody_knew_the_whole(
    type_: str | None, lines: list[tuple[str, int]], start: int, dropped: int
) -> None:
    text = "".join(line * count for line, count in lines)
    part = text[start : len(text) - dropped]
    form = read_form(type_, text)
    assert form.part(part) == as_read(type_, part)
    assert form.words(part) == words(type_, part)
    found = list(merged(blobs(part), way.edits(part) if (way := way_of(type_)) else ()))
    assert embedded(type_, part) == applied(part, found)


@given(
    st.sampled_from(sorted(filter(way_of, BY_TYPE))),
    st.lists(st.lists(st.sampled_from(PARTS), max_size=6).map("".join), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\r", " ", ",", '"', "}"]),
    st.lists(st.integers(0, 60), max_size=4),
)
@example("code", ["a", r"\c4 y"], "\n", [])
@example("text", ["'#246'abc", "abc'#246'abc", "#246'abc"], "\n", [])
@example("text", ["FOO=", "bar=C3=BC"], "\n", [])
@example("yaml", ["word\\", "  word &uuml;"], "\n", [])
@example("text", ["cn:: R8O2", " ZGVs &uuml;"], "\n", [])
@example("text", ["童話《もも》", "a"], "\n", [])
@example("markdown", ["京<rt>a", "b &uuml;</rt>"], "\n", [])
@example("tex", [r"\ruby{a", r"b}{c} \'e"], "\n", [])
@example("tex", [r"\'", "e"], " ", [])
@example("text", ["cn:: R8O2ZGVs%"], "\n", [8])
@example("text", [r"a$'\303\266'$'\303\266'", r"'a'$'\303\266''$'\303\266'"], "\n", [])
@example("json", [r'"\u00e4', r'u00e4"'], "", [3])
@example("json", [r'"a\\', r'\""'], "", [4])
@example("code", ["xn--mnchen-3ya", r"\u00e4"], " ", [])
@example("tex", ["x&uuml=1"], " ", [6])
def test_parts_are_read_as_alone_and_as_within_the_text(
    type_: str, lines: list[str], end: str, others: list[int]
) -> None:
    text = end.join(lines)
    form = read_form(type_, text)
    places = [0]
    for line in lines:
        places += [places[-1] + len(line), places[-1] + len(line) + len(end)]
    places = sorted({place for place in (*places, *others) if place <= len(text)})
    spans = [(a, b) for number, a in enumerate(places) for b in places[number + 1 :]]
    reads, in_whole = form.parts([a for a, _ in spans], [text[a:b] for a, b in spans])
    for number, (a, b) in enumerate(spans):
        part, read = text[a:b], reads[number]
        assert read == as_read(type_, part)
        within = part if form.whole is None else form.whole.between([a], [b])[0]
        if form.whole is not None:
            assert in_whole.get(number, part if read is None else read) == within


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=8))
def test_many_offsets_are_found_in_the_written_text_as_each_of_them(edits: list[tuple[int, int, int]]) -> None:
    made, end = list[Edit](), 0
    for gap, length, read in edits:
        made.append(Edit(end + gap, end + gap + length, "r" * read))
        end += gap + length
    text = ReadText("w" * (end + 3), made)
    for offsets in (np.arange(len(text.text)), np.repeat(np.arange(0, len(text.text), 2), 2)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(reading, "_MANY", 0)
            assert text.all_written_at(offsets).tolist() == text.written_at(offsets).tolist()


#: What commands of LaTeX and braces within words consist of.
COMMANDS = (
    *(
        "{",
        "}",
        "\\",
        "^",
        '"',
        "^^fc",
        r"\c",
        r"\ss",
        r"\o",
        r"\oe",
        r"\i",
        r"\text",
        r"\textbf{",
        r"\textbar",
        r"\textcommabelow{",
    ),
    *(
        r"\ruby{a}{b}",
        r"\-",
        r"\_",
        r"\section*",
        r"\emph",
        r"\LaTeX",
        r"\v ",
        "{}",
        "{K}alman",
        "ab",
        "é",
        "ő",
        "大",
        "?",
        "1",
        "_",
        "]",
    ),
    *('"Uber', '"', "s", 'Ma"s', r"\char", r"\symbol{246}", '"F6', "'366", "246", "^^c3^^b6", "^^^^5927"),
    *("&uuml;", "="),
    *("abcdefgh", "abcdefghi", *("a" * length for length in (30, 31, 32)), *"'`.=~|- \n"),
)


#: Runs of an encoding, and what precedes or joins them.
ENCODED = b64encode(random.Random(3).randbytes(1_200)).decode()
RUNS = (
    *(ENCODED[:length] for length in (12, 52, 60, 76, 120, 600)),
    *(f"{ENCODED[at : at + 76]}\n" for at in (0, 76, 152)),
    *(ENCODED[:600].encode().hex(), "data:image/png;base64,", "data:", "=", "%3D", "%2B", "\\n", "\\/", '",\n"', "."),
)


@given(
    st.sampled_from([None, *sorted(BY_TYPE)]),
    st.lists(st.sampled_from((*RUNS, *PARTS, *COMMANDS, *LINES)), max_size=16).map("".join),
    st.sampled_from([1, 40]),
)
@example(None, f"{ENCODED[:600]}data:image/png;base64,{ENCODED[600:]}", 1)
@example(None, f"{ENCODED[:600]}%3D{ENCODED[600:1_200]}", 1)
@example(None, "\n".join(ENCODED[80 * n :][:width] for n, width in enumerate((76, 76, 76, 60, 70, 70, 70, 70))), 1)
def test_edits_are_in_order_and_do_not_overlap(type_: str | None, text: str, times: int) -> None:
    way = way_of(type_)
    kinds = [blobs, partial(full, type_), *((way.edits, way.full) if way else ())]
    for kind in kinds:
        end = 0
        for edit in kind(text * times):
            assert end <= edit.start < edit.end
            end = edit.end
        assert end <= len(text) * times


@given(st.lists(st.sampled_from(COMMANDS), max_size=20).map("".join), st.sampled_from([1, 7, 64]))
@example(f"\\{'a' * 31}{{K}}x \\{'a' * 32}{{K}}x", 64)
@example("x{abcdefgh} {abcdefgh}y a{}b ő{K}x ?{K}x {\\ss}", 64)
def test_signs_of_latex_are_found_as_by_trying_everywhere(text: str, window: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tex_signs, "MIN_CHARS", len(text) + 1)
        everywhere = list(tex.edits(text))
        patched.setattr(tex_signs, "MIN_CHARS", 0)
        patched.setattr(tex_signs, "_WINDOW", window)
        assert list(tex.edits(text)) == everywhere


@given(st.sampled_from(sorted(filter(way_of, BY_TYPE))), st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_a_text_without_a_sign_has_no_other_words(type_: str, text: str) -> None:
    way = way_of(type_)
    assert way is not None
    whole = applied(text, merged(blobs(text), way.full(text)))
    assert words(type_, text) == "\n".join([whole, *way.twins(text)])
