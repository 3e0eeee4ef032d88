from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.content.document import Document
from schemas.content.source import ChunkSettings
from schemas.errors import FileError
from schemas.reason import Reason
from tests import parsing
from worker.chunk import chunk
from worker.formats.grammars import is_known
from worker.formats.registry import BY_TYPE
from worker.index.memory_guard import GuardedTokenizer
from worker.parse import Limits, version
from worker.tokens.tokenizers import cl100k

CHUNKS = ChunkSettings(unit="tokens", size=512, overlap=64)


def parse(name: str, data: bytes) -> Document:
    return parsing.parse(name, data, Limits())


def refusal(name: str, data: bytes) -> FileError:
    with pytest.raises(FileError) as caught:
        parse(name, data)
    return caught.value


@pytest.mark.parametrize(
    ("name", "type_", "language"),
    [
        ("a.md", "markdown", None),
        ("A.MARKDOWN", "markdown", None),
        ("docs/page.mdx", "markdown", None),
        ("a.json", "json", "json"),
        ("a.py", "code", "python"),
        ("a.ts", "code", "typescript"),
        ("a.tsx", "code", "tsx"),
        ("src/Makefile", "code", "make"),
        ("a.b.yaml", "yaml", "yaml"),
        ("a.lua", "code", "lua"),
        ("notes.txt", "text", None),
        ("LICENSE", "text", None),
        ("key", "text", None),
        (".gitignore", "text", None),
        ("pdf", "text", None),
    ],
)
def test_the_name_tells_the_type(name: str, type_: str, language: str | None) -> None:
    document = parse(name, b"123")
    assert (document.type, document.language) == (type_, language)
    known = language and is_known(language)
    assert version(name) == f"{type_}-{BY_TYPE[type_].version}{' grammar' if known else ''}"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", Reason.EMPTY),
        ("a.pdf", b"", Reason.EMPTY),
        ("a.txt", b" \r\n\t", Reason.NO_TEXT),
        ("a.txt", b"\xef\xbb\xbf", Reason.NO_TEXT),
        ("a.json", b"  \n", Reason.NO_TEXT),
        ("a.txt", b"a\0b", Reason.BINARY),
        ("a.txt", b"%PDF-1.7 text", Reason.PARSE_FAILED),
        ("a.md", b"PK\x03\x04rest", Reason.PARSE_FAILED),
        ("a.txt", b"\x80\x81\x8d\x8f\x90\x9d" * 9 + b"\x80", Reason.NOT_UTF8),
        ("a.pdf", b"%PDF-1.7", Reason.PARSE_FAILED),
        ("A.PNG", b"\x1f\x8b\x08", Reason.BINARY),
        ("a.mp3", b"ID3", Reason.UNSUPPORTED_TYPE),
        ("a.tar.gz", b"\x1f\x8b", Reason.UNSUPPORTED_TYPE),
        ("a.json", b"[" * 100_000, Reason.PARSE_FAILED),
        ("a.json", b"[" * 100_000 + b"]" * 100_000, Reason.PARSE_FAILED),
        ("a.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, Reason.PARSE_FAILED),
    ],
)
def test_every_refusal_has_a_reason(name: str, data: bytes, reason: Reason) -> None:
    assert refusal(name, data).reason is reason


def test_messages_say_where() -> None:
    assert "offset 3" in refusal("a.txt", b"caf" + b"\x80\x81\x8d\x8f\x90\x9d" * 9).message
    assert "transcript" in refusal("a.mp3", b"x").message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "a": }', "line 2, column 8"),
        ('{"a": 1} x', "line 1, column 10"),
        ('{"a": [1, 2, {"b": "cut o', "line 1, column 20"),
    ],
)
def test_malformed_json_is_plain_text_with_a_note(text: str, place: str) -> None:
    document = parse("a.json", text.encode())
    assert (document.text, document.type, document.markup) == (text, "json", "lines")
    assert f"Not well-formed JSON at {place} (" in document.note
    chunks = chunk(document, CHUNKS, cl100k(), 8192)
    assert [piece.text for piece in chunks] == [text]
    with pytest.raises(FileError) as caught:
        chunk(document, CHUNKS, cl100k(), 8192, pointer="/a")
    assert (caught.value.reason, caught.value.message) == (Reason.PARSE_FAILED, document.note)


def test_a_note_comes_from_the_helper_process_too() -> None:
    text = '{"a": "' + "word " * 300_000
    document = parse("a.json", text.encode())
    assert (document.text, "line 1, column 7" in document.note) == (text, True)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_of_python_are_no_json(constant: str) -> None:
    document = parse("a.json", f'{{"NaN": "\\"NaN",\n "b": {constant}}}'.encode())
    assert document.markup == "lines"
    assert f"line 2, column 7 ({constant} is not a JSON value)" in document.note


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '"\\ud800"', "9" * 5000, "1e999", "null", '"NaN"', '{"\\u0000": 1}', " [1]\r\n"]
)
def test_legal_json_stays_as_it_is(text: str) -> None:
    document = parse("a.json", text.encode())
    assert (document.text, document.note) == (text, "")


def test_text_is_kept_but_for_a_byte_order_mark() -> None:
    assert parse("a.txt", "\ufeffone\r\ntwo 😀 e\u0301\n".encode()).text == "one\r\ntwo 😀 e\u0301\n"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\n# Two", "One"),
        ("text\n\n## A `b` c ##\n", "A `b` c"),
        ("Title\r\n=====\r\ntext", "Title"),
        ("---\ntitle: x\n# no\n---\n# No\n", "x"),
        ("---\nkind: x\n# no\n---\n# Yes\n", "Yes"),
        ("---\n\n# Rule before\n\n---\n", "Rule before"),
        ("```sh\n# no\n```\n# Yes", "Yes"),
        ("````\n```\n# no\n````\n# Yes", "Yes"),
        ("~~~\n# no\n```\n# no\n", None),
        ("    # code\n", None),
        ("#hashtag\n", None),
        ("- item\n---\n", None),
        ("a\nb\n---\n", None),
        ("#\ntext", None),
        ("plain", None),
    ],
)
def test_the_first_heading_is_the_title(text: str, title: str | None) -> None:
    assert parse("a.md", text.encode()).title == title


@given(st.binary(), st.sampled_from(["a.md", "a.json", "a.py", "a.txt"]))
def test_bytes_become_a_document_or_a_refusal(data: bytes, name: str) -> None:
    try:
        document = parse(name, data)
    except FileError:
        return
    text = document.text
    lines = data.removeprefix(b"\xef\xbb\xbf") if b"\n" in data else data.replace(b"\r", b"\n")
    assert text.encode() == lines.removeprefix(b"\xef\xbb\xbf") or not _is_utf8(data)
    assert "\0" not in text


@given(st.text("abc äß漢🧀\t\n", min_size=1).filter(str.strip), st.sampled_from(["a.md", "a.py", "a.txt"]))
def test_text_is_never_refused_and_never_changed(text: str, name: str) -> None:
    """The test above would also pass for a parser that rejects everything."""
    assert parse(name, text.encode()).text == text


def _is_utf8(data: bytes) -> bool:
    try:
        return "\0" not in data.decode() and b"\x1b$" not in data
    except UnicodeDecodeError:
        return False


def test_json_of_too_many_values_is_told_to_become_lines() -> None:
    with pytest.raises(FileError) as caught:
        GuardedTokenizer(cl100k(), ChunkSettings(), 8192, "json", 1 << 30).check("[" + "1," * 5_000_000 + "1]")
    assert caught.value.reason is Reason.TOO_LARGE
    assert "PARSE_MEMORY_MB (1,024 MB); save it as JSON Lines (.jsonl) or raise that setting." in caught.value.message
