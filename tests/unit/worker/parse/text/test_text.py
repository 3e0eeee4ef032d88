from __future__ import annotations

import bz2
import codecs
import json
import random
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from tests.parsing import parse
from worker.parse.data import csv, jsonl, toml, yaml
from worker.parse.data import json as json_
from worker.parse.encodings import decode
from worker.parse.limits import Limits
from worker.parse.mail import email
from worker.parse.office import rtf
from worker.parse.text import markdown, notebook
from worker.parse.web import html
from worker.parse.xml import xml

LIMITS = Limits()

FRENCH = "Le café est près de la forêt, où l'été dure déjà. Ça va très bien, merci à vous. "
LANGUAGES = [
    (FRENCH, "cp1252"),
    ("caf\xe9", "latin-1"),
    ("Grüße aus München, schöne Straße, Übung macht den Meister.", "latin-1"),
    ("Zażółć gęślą jaźń. Szczęście jest ważne, łąka pięknie wygląda.", "cp1250"),
    ("Съешь же ещё этих мягких французских булок да выпей чаю.", "cp1251"),
    ("Съешь же ещё этих мягких французских булок да выпей чаю.", "koi8-r"),
    ("Αυτό είναι ένα ελληνικό κείμενο για δοκιμή.", "cp1253"),  # noqa: RUF001 - foreign letters are the point
    ("Türkçe metin: şişe, çığ, öğrenci, güneş, ığdır.", "cp1254"),  # noqa: RUF001 - foreign letters are the point
    ("“Quoted” text — with dashes… and €5.", "cp1252"),
    ("日本語の文章です。これはテストです。漢字とひらがな。", "shift_jis"),
    ("日本語の文章です。これはテストです。漢字とひらがな。", "euc_jp"),
    ("日本語の文章です。", "iso2022_jp"),
    ("这是一个中文文本，用于测试编码检测。我们希望它能正常工作。", "gb18030"),  # noqa: RUF001 - foreign letters are the point
    ("這是一個中文文本，用於測試編碼偵測。我們希望它能正常工作。", "big5"),  # noqa: RUF001 - foreign letters are the point
    ("이것은 한국어 텍스트입니다. 인코딩 감지를 테스트합니다.", "euc_kr"),
    ("wide café", "utf-16"),
    ("wide café", "utf-16-le"),
    ("wide café", "utf-16-be"),
    ("Жебракують філософи\nпри ґанку церкви", "utf-16-le"),  # noqa: RUF001 - foreign letters are the point
    ("吾輩は猫である。\n名前はまだ無い。\n", "utf-16-be"),
    ("모든 인간은 태어날 때부터", "utf-16-le"),
    ("wide 😀", "utf-32"),
]


@pytest.mark.parametrize(("text", "encoding"), LANGUAGES)
def test_the_encoding_is_found(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE])
def test_byte_order_marks_are_no_text(mark: bytes) -> None:
    encodings = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    assert decode(mark + "a é".encode(encodings.get(mark, "utf-32-be"))) == "a é"


def test_a_declared_encoding_is_believed() -> None:
    assert decode('<?xml version="1.0" encoding="windows-1251"?><a>я</a>'.encode("cp1251")).endswith("<a>я</a>")
    assert decode("<meta charset=iso-8859-7><p>ά</p>".encode("iso-8859-7")).endswith("<p>ά</p>")
    # a codec that turns bytes into other bytes is not a text encoding
    assert decode(b"# coding: rot13\ncaf\xe9") == "# coding: rot13\ncafé"


def test_utf8_with_flaws_stays_utf8() -> None:
    assert decode(b"log " + "日本語日本語日本語日本".encode() + b"\xe6\x97") == "log 日本語日本語日本語日本\ufffd"
    assert decode(b"ok \xed\xa0\xbd\xed\xb8\x80 \xed\xa0\x80.") == "ok 😀 \ufffd."
    assert decode("a\ud800b".encode("utf-16-le", "surrogatepass").join([codecs.BOM_UTF16_LE, b"x\0" * 300])) is not None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\0b", Reason.BINARY),
        (b"text\0" * 100, Reason.BINARY),
        (codecs.BOM_UTF16_LE + "a\0b".encode("utf-16-le"), Reason.BINARY),
        (bytes(range(1, 256)), Reason.NOT_UTF8),
        (bytes(random.Random(1).choices(range(1, 256), k=5000)), Reason.NOT_UTF8),
        (codecs.BOM_UTF16_LE, Reason.NO_TEXT),
        (b"\xef\xbb\xbf \n", Reason.NO_TEXT),
    ],
)
def test_what_is_no_text_says_so(data: bytes, reason: Reason) -> None:
    with pytest.raises(FileError) as caught:
        decode(data)
    assert caught.value.reason is reason


@pytest.mark.parametrize("data", [b"\0\1\2\0", b"\0\1\2\0" * 40, b"\x89PNG\0\xff", bytes(range(32)) * 8])
def test_bytes_that_make_some_characters_are_no_text(data: bytes) -> None:
    with pytest.raises(FileError) as caught:
        decode(data)
    assert caught.value.reason is Reason.BINARY


@pytest.mark.parametrize("text", ["BZh is how such an archive begins", "GIF89a\nis a format of pictures", "ID3 tags"])
def test_text_may_begin_with_the_letters_of_a_kind(text: str) -> None:
    assert parse("a.md", text.encode(), LIMITS).text == text


@pytest.mark.parametrize("data", [bz2.compress(b"text"), b"\x1f\x8b\x08", b"GIF89a\x10\0\x10\0", b"%PDF-1.7 ..."])
def test_what_is_of_another_kind_is_no_text(data: bytes) -> None:
    with pytest.raises(FileError, match="first bytes") as caught:
        decode(data)
    assert caught.value.reason is Reason.BINARY


@given(st.binary(max_size=400))
def test_any_bytes_become_storable_text_or_a_refusal(data: bytes) -> None:
    try:
        text = decode(data)
    except FileError:
        return
    assert "\0" not in text
    text.encode()


@given(st.text("abc äß漢🧀\t\n", min_size=1).filter(str.strip))
def test_text_in_utf_8_is_read_as_it_is(text: str) -> None:
    assert decode(text.encode()) == text


def test_html_becomes_markdown() -> None:
    document = html.read(
        b"""<!DOCTYPE html><html><head><title> My  page &amp; more</title><style>x{}</style></head><body>
        <nav><a href=x>home</a></nav><main><h1>Head <em>line</em></h1>
        <p>Some <b>bold</b> text, a <a href="http://x">link</a>.<br>Second line <code>x = 1</code></p>
        <ul><li>one</li><li>two<ol><li>a</li><li>b</li></ol></li><li>three</li></ul><h2>Table</h2>
        <table><thead><tr><th>A</th><th>B|C</th></tr></thead><tbody><tr><td>1<p>x</p></td><td>2</td></tr></tbody>
        </table>after<pre><code class="language-python">def f():
    return 1
</code></pre><p># no heading</p><img alt="a cat"><script>alert(1)</script></main><footer>foot</footer></body>""",
        LIMITS,
    )
    assert document.title == "My page & more"
    assert document.markup == "markdown"
    assert document.text == (
        "# Head line\n\nSome bold text, a link.\nSecond line `x = 1`\n\n- one\n- two\n  1. a\n  2. b\n- three\n\n"
        "## Table\n\n| A | B\\|C |\n| --- | --- |\n| 1 x | 2 |\n\nafter\n\n```python\ndef f():\n    return 1\n```\n\n"
        "\\# no heading\n\na cat"
    )


def test_xhtml_with_an_empty_title_keeps_its_body() -> None:
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body><a id="x"/>Hi'
    assert html.read(page.encode(), LIMITS) == Document("Hi", "html", markup="markdown")


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<svg><title>An icon</title></svg><h1>The page</h1>", "The page"),
        ("<head><title> </title></head><h1></h1><h1>The page</h1>", "The page"),
        ("<title>Of the head</title><svg><title>An icon</title></svg><h1>The page</h1>", "Of the head"),
    ],
)
def test_the_title_of_a_page_is_its_own(page: str, title: str) -> None:
    assert html.read(page.encode(), LIMITS).title == title


def test_a_table_that_lays_out_a_page_is_no_table() -> None:
    page = "<table><tr><td>menu</td><td><p>text</p><table><tr><td>1<td>2</table></table>"
    assert html.to_markdown(page) == "menu\n\ntext\n\n| 1 | 2 |\n| --- | --- |"


def test_a_page_of_navigation_only_is_still_text() -> None:
    assert html.to_markdown("<nav>all there is</nav>") == "all there is"


def test_xml_is_kept_as_it_stands() -> None:
    text = '<?xml version="1.0"?>\n<doc a="1">\n  <title>A &amp; B</title> &unknown; <open>\n'
    document = xml.read(text.encode(), LIMITS)
    assert (document.text, document.title, document.language) == (text, "A & B", "xml")


def test_references_to_characters_become_them() -> None:
    text = "<a>Schr&#x00F6;dinger &#8212; &#38; &#60; &#10; &#x9f; &#xa0; &#xD800; &#x110000;</a>"
    shown = "<a>Schrödinger — &#38; &#60; &#10; &#x9f; \xa0 &#xD800; &#x110000;</a>"
    assert xml.read(text.encode(), LIMITS).text == shown


def test_data_beside_the_text_may_be_declared() -> None:
    head = '<!DOCTYPE a [<!NOTATION gif SYSTEM "show"><!ENTITY p SYSTEM "http://127.0.0.1/p.gif" NDATA gif>]>'
    assert xml.read(f'{head}<a see="p">x</a>'.encode(), LIMITS).text.startswith(head)


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;">',
        '<!ENTITY x SYSTEM "file:///etc/passwd">',
        '<!ENTITY % p SYSTEM "http://127.0.0.1/x.dtd"> %p;',
        f'<!ENTITY long "{"x" * 2000}">',
    ],
)
def test_entities_made_to_harm_are_refused(declarations: str) -> None:
    with pytest.raises(FileError) as caught:
        xml.read(f"<!DOCTYPE svg [{declarations}]><svg>&x;</svg>".encode(), LIMITS)
    assert caught.value.reason is Reason.PARSE_FAILED
    assert "<!ENTITY>" in caught.value.message


def test_harmless_entities_are_text() -> None:
    text = '<!DOCTYPE svg [<!ENTITY ns "http://www.w3.org/2000/svg">]><svg xmlns="&ns;">' + "&ns;" * 100_000 + "</svg>"
    assert xml.read(text.encode(), LIMITS).text == text


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("id,name\n1,x\n", "id, name"),
        ("id\tname, in full\n1\tx\n", "id, name, in full"),
        ("id;name\n1,5;x\n2,5;y\n", "id, name"),
        ('"a ""b""","two\nlines"\n1,2\n', 'a "b", two lines'),
        ("1,2\n3,4\n", ""),
        ("one column\nx\n", "one column"),
        (",name,age\n0,Ada,36\n1,Bob,40\n", "name, age"),
        ("name,age,,,,\nAda,36,,,,\n", "name, age"),
        (",,name\n1,2,Ada\n", ""),
        ("Ada,36\nBob,40\n", ""),
        ("# made by hand\n# twice\nname;age\nAda;36\n", "name, age"),
        ("#name\tage\nAda\t36\n", "name, age"),
        ("sep=;\r\nname;size\r\nAda;1,5\r\n", "name, size"),
        ("Crew of the ferry\n\nname,age\nAda,36\nBob,40\n", "name, age"),
        ("Crew of the ferry,,\nname,age,post\nAda,36,cook\n", "name, age, post"),
        ("town,2019,2020,2021\nBonn,1,2,3\n", "town, 2019, 2020, 2021"),
        ("Bonn,2020,2019\nUlm,2018,2017\n", ""),
        ("# only a remark\n", ""),
        ("a,b\n1\n1,2,3,4\n", "a, b"),
        ("x" * 200_000 + ",b\n1,2\n", ""),
    ],
)
def test_the_header_of_a_table(text: str, header: str) -> None:
    document = csv.read(text.encode(), LIMITS)
    assert (document.text, document.header, document.markup) == (text, header, "table")


def test_json_lines_may_be_broken() -> None:
    text = '{"a": 1}\n{broken\n[2]\n'
    assert jsonl.read(text.encode(), LIMITS).text == text


def test_yaml_and_toml_are_kept() -> None:
    assert yaml.read(b"a: {{ template }}\n", LIMITS) == Document("a: {{ template }}\n", "yaml", "yaml", markup="keys")
    assert toml.read(b"[a]\nb = 1\n", LIMITS).text == "[a]\nb = 1\n"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: 'From the front'\n---\n# Heading\n", "From the front"),
        ('+++\ntitle = "In TOML"\n+++\n# Heading\n', "In TOML"),
        ("---\ndate: 1\n---\n# Heading\n", "Heading"),
        ('---\ntitle: ""\n---\n# Heading\n', "Heading"),
        ("---\ntitle: >-\n  Folded\n---\n# Heading\n", "Heading"),
        ("#\n\n# Heading\n", "Heading"),
        ("# Heading\n\ntitle: no\n", "Heading"),
    ],
)
def test_front_matter_has_the_title(text: str, title: str) -> None:
    document = markdown.read(text.encode(), LIMITS)
    assert (document.text, document.title) == (text, title)


def made_notebook(**cell: object) -> bytes:
    return json.dumps({"cells": [cell], "metadata": {"kernelspec": {"language": "R"}}}).encode()


def test_notebooks_are_cells_and_outputs() -> None:
    outputs: list[object] = [
        {"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n"]},
        {"output_type": "execute_result", "data": {"image/png": "AAAA", "text/plain": ["42"]}},
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["long"]},
    ]
    document = notebook.read(made_notebook(cell_type="code", source=["x = 1\n", "x"], outputs=outputs), LIMITS)
    assert document.text == "```r\nx = 1\nx\n```\n\n```\nred\n42\nValueError: no\n```"
    assert document.language == "r"


@pytest.mark.parametrize(
    ("kind", "level", "marks"),
    [("heading", "2", "## "), ("heading", "12", "###### "), ("heading", "9" * 5000, "# "), ("markdown", "2", "")],
)
def test_headings_of_older_notebooks_have_their_level(kind: str, level: str, marks: str) -> None:
    cell = f'{{"cell_type": "{kind}", "level": {level}, "source": ["Results"]}}'
    document = notebook.read(f'{{"worksheets": [{{"cells": [{cell}]}}]}}'.encode(), LIMITS)
    assert document.text == f"{marks}Results"


def test_long_outputs_are_trimmed() -> None:
    cell = made_notebook(cell_type="code", source="x", outputs=[{"output_type": "stream", "text": "y " * 10**6}])
    assert len(notebook.read(cell, LIMITS).text) < 2100


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"cells": 1}'])
def test_what_is_no_notebook_is_read_as_json_and_says_so(data: bytes) -> None:
    document = notebook.read(data, LIMITS)
    assert (document.text, document.type, document.markup) == (data.decode(), "notebook", "json")
    assert "no list of cells" in document.note


def test_a_notebook_that_is_nested_too_deep_fails() -> None:
    with pytest.raises(FileError) as caught:
        notebook.read(b'{"cells": ' + b"[" * 100_000, LIMITS)
    assert caught.value.reason is Reason.PARSE_FAILED


@pytest.mark.parametrize(("share", "whole"), [(0.2, 0), (0.5, 1), (0.8, 2), (0.9999, 3)])
def test_a_notebook_that_is_cut_off_keeps_its_whole_cells(share: float, whole: int) -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" * 200}}
    cells = [{"cell_type": "code", "source": f"cell_{n}()", "outputs": [picture]} for n in range(3)]
    data = json.dumps({"nbformat": 4, "cells": cells}).encode()
    document = notebook.read(data[: int(len(data) * share)], LIMITS)
    assert document.type == "notebook"
    if whole:
        assert document.text == "\n\n".join(f"```python\ncell_{n}()\n```" for n in range(whole))
        assert "Only the cells above are read" in document.note
    else:
        assert (document.markup, document.text[:15]) == ("lines", '{"nbformat": 4,')
        assert "It is read as plain text" in document.note


def test_odd_notebooks_do_no_harm() -> None:
    content = {"cells": [1, None, {}, {"cell_type": "code", "source": 7, "outputs": {"a": 1}}, {"source": ["a", 1]}]}
    assert notebook.read(json.dumps(content).encode(), LIMITS).text.strip() == "a"


def test_messages_have_a_head_and_a_body() -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Grüße aus der Ferne", "Ada <ada@example.org>", "b@example.org"
    message.set_content("Plain words, naïve.\n")
    message.add_alternative("<p>The page</p>", subtype="html")
    message.add_attachment(b"\0\1", maintype="application", subtype="pdf", filename="Übersicht.pdf")
    document = email.read(message.as_bytes(), LIMITS)
    assert document.title == "Grüße aus der Ferne"
    assert document.text == (
        "Subject: Grüße aus der Ferne\nFrom: Ada <ada@example.org>\nTo: b@example.org\n"
        "Attachments: Übersicht.pdf\n\nPlain words, naïve."
    )


def test_a_page_is_read_where_there_is_no_text() -> None:
    message = EmailMessage()
    message.set_content("<h1>Head</h1><p>Body", subtype="html")
    document = email.read(message.as_bytes(), LIMITS)
    assert (document.text, document.markup) == ("# Head\n\nBody", "markdown")


def body_of(message: EmailMessage) -> str:
    return email.read(message.as_bytes(), LIMITS).text.partition("\n\n")[2]


def test_the_text_of_an_attached_message_is_not_the_messages_own() -> None:
    old, message = EmailMessage(), EmailMessage()
    old.set_content("attached mail text")
    message["Subject"] = "s"
    message.set_content("<p>The real body", subtype="html")
    message.add_attachment(old, filename="old.eml")
    assert email.read(message.as_bytes(), LIMITS).text == "Subject: s\nAttachments: old.eml\n\nThe real body"


def test_a_message_that_is_forwarded_inline_is_read() -> None:
    old, message = EmailMessage(), EmailMessage()
    old.set_content("What she wrote")
    message["Subject"] = "s"
    message.set_content("See below")
    message.add_attachment(old, disposition="inline")
    assert body_of(message) == "See below\n\nWhat she wrote"


def test_every_part_of_a_message_is_read_in_order() -> None:
    message = EmailMessage()
    message["Subject"] = "s"
    message.set_content("<h1>News</h1><p>The page", subtype="html")
    message.add_attachment("# no heading\nof the list", disposition="inline")
    assert body_of(message) == "# News\n\nThe page\n\n\\# no heading\nof the list"


def test_an_alternative_is_chosen_where_the_alternatives_are() -> None:
    both, message = EmailMessage(), EmailMessage()
    both.set_content("plain")
    both.add_alternative("<p>page", subtype="html")
    message["Subject"] = "s"
    message.make_mixed()
    message.attach(both)
    message.add_attachment("footer", disposition="inline")
    assert body_of(message) == "plain\n\nfooter"


def test_an_alternative_without_text_is_none() -> None:
    message = EmailMessage()
    message["Subject"] = "s"
    message.set_content(" \n")
    message.add_alternative("<p>page", subtype="html")
    message.add_alternative("BEGIN:VCALENDAR", subtype="calendar")
    assert body_of(message) == "page"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_headers_in_raw_bytes_are_text(encoding: str) -> None:
    raw = (
        "Subject: Größe =?utf-8?q?=E2=82=AC?= und Übung\nFrom: Jürgen <j@example.org>\n"
        'Content-Disposition: attachment; filename="Entwürfe.pdf"\n\n'
    )
    document = email.read(raw.encode(encoding), LIMITS)
    assert document.title == "Größe € und Übung"
    assert "From: Jürgen <j@example.org>\nAttachments: Entwürfe.pdf" in document.text


def test_messages_in_unknown_encodings_are_read() -> None:
    raw = b"Subject: =?x-none?q?caf=E9?=\nContent-Type: text/plain; charset=x-none\n\ncaf\xe9 au lait"
    assert email.read(raw, LIMITS).text == "Subject: café\n\ncafé au lait"


def test_rich_text_is_plain_text() -> None:
    raw = rb"{\rtf1\ansi\ansicpg1252{\info{\title My letter}}{\fonttbl{\f0 Arial;}}Caf\'e9 \b bold\b0\par "
    raw += rb"\u-10179?\u-8704? end{\pict\pngblip " + b"0123456789abcdef" * 1000 + b"}}"
    document = rtf.read(raw, LIMITS)
    assert (document.text, document.title) == ("Café bold\n😀 end", "My letter")


@pytest.mark.parametrize(
    ("page", "body"),
    [
        ("0", r"caf\'e9 \'80"),
        ("99999", r"caf\'e9 \'80"),
        ("10000", r"caf\'8e \'db"),
        ("65001", r"caf\'c3\'a9 \'e2\'82\'ac"),
        ("65001", "caf\\'c3\n\\'a9 \\'e2\\'82\r\n\\'ac"),
        ("65001", r"caf\'e9 \'80"),
        ("1252", r"caf\'e9 \'80"),
    ],
)
def test_rich_text_is_read_in_its_code_page(page: str, body: str) -> None:
    assert rtf.read(rf"{{\rtf1\ansi\ansicpg{page} {body}}}".encode(), LIMITS).text == "café €"


def test_what_is_no_rich_text_says_so() -> None:
    with pytest.raises(FileError) as caught:
        rtf.read(b"plain", LIMITS)
    assert caught.value.reason is Reason.PARSE_FAILED


HOSTILE = {
    "many columns": ("a.csv", 'b",".join([b"c"] * 300_000) + b"\\n" + b",".join([b"1"] * 300_000)'),
    "one line": ("a.txt", 'b"some words and more; " * 150_000'),
    "only newlines": ("a.txt", 'b"x" + b"\\n" * 3_000_000'),
    "only headings": ("a.md", 'b"# h\\ntext\\n" * 300_000'),
    "one word": ("a.txt", 'b"abcdefghij" * 300_000'),
}
# ru_maxrss would begin with that of this process
MEASURED = """
import sys
from schemas.content.source import ChunkSettings
from worker.chunk import chunk
from tests.parsing import parse
from worker.parse import Limits
from worker.tokens.tokenizers import cl100k
data = {data}
chunks = chunk(parse({name!r}, data, Limits()), ChunkSettings(), cl100k(), 8192)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(len(chunks), status["VmHWM"].split()[0])
"""


@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="run on Linux: only it tells a process's peak")
@pytest.mark.parametrize("case", HOSTILE)
def test_three_megabytes_take_bounded_memory(case: str) -> None:
    name, data = HOSTILE[case]
    script = MEASURED.format(name=name, data=data)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    chunks, peak = map(int, done.stdout.split())
    assert chunks >= 1
    # of which the interpreter and its libraries take a half
    assert peak * 1024 < 270_000_000


def test_a_json_pointer_of_ten_kilobytes_is_found() -> None:
    text = json.dumps({"k" * 10_000: {"x" * 100: {"a": "words " * 3000}}})
    assert json_.read(text.encode(), LIMITS).text == text
