"""Damaged files of text formats: each gives an outcome, or a document that Postgres accepts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats.registry import FORMATS
from worker.parse.data import csv, jsonl, toml, yaml
from worker.parse.data import json as json_
from worker.parse.limits import Limits
from worker.parse.mail import email
from worker.parse.office import rtf
from worker.parse.sandbox.read import read as read_as
from worker.parse.text import asciidoc, markdown, notebook, org, rst, tex
from worker.parse.web import html
from worker.parse.xml import xml

LIMITS = Limits()
READERS = [csv.read, email.read, html.read, json_.read, jsonl.read, markdown.read, notebook.read, rtf.read, toml.read]
READERS += [asciidoc.read, org.read, rst.read, tex.read, xml.read, yaml.read]

#: Characters of all these formats. Purely random bytes hardly ever get past the first one.
SIGNS = b"""
{ } [ ] " : , null 1e999 \\ud800 \\u0000 # --- ``` | :: == +++ *** <!-- --> </p <p> <table><td> &#xd800; &#0; &
{\\rtf1 \\u-10240? \\'e9 \\par \\footnote \\begin{a} \\end{b} \\section{ $$ % #+begin_src #+end [[ ]] .. ---- |===
From:a Subject: =?utf-8?b?4oKs?= Content-Type:multipart/mixed;boundary=b --b --b-- Content-Transfer-Encoding:base64
"cells": "source": "cell_type":"code" !!binary &a *a ? - key: <![CDATA[ ]]> <?xml <a:b = :a:
""".split()
SIGNS += [b"\n", b"\n\n", b" ", b"\t", b"\r\n", b"\0", b"\xff", b"\xed\xa0\x80", b"word", b"\xe2\x82\xac"]
BEGINNINGS = [b"", b"{\\rtf1 ", b'{"cells": [', b"From: a\nContent-Type: multipart/mixed; boundary=b\n\n--b\n", b"<p>"]
SIGNED = st.builds(
    bytes.__add__, st.sampled_from(BEGINNINGS), st.lists(st.sampled_from(SIGNS), max_size=30).map(b"".join)
)


def outcome(module: str, data: bytes) -> Document | FileError:
    format_ = next(format_ for format_ in FORMATS if format_.reader == f"worker.parse.{module}:read")
    try:
        return read_as(format_, data, LIMITS)
    except FileError as failure:
        return failure


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__module__.rpartition(".")[2])
@given(data=SIGNED | st.binary(max_size=200))
@example(data=b"{\\rtf1 a \\u0? b}")
@example(data=b" \n\t")
@settings(max_examples=60)
def test_damage_is_an_outcome_and_what_is_left_is_text(read: Callable[[bytes, Limits], Document], data: bytes) -> None:
    # a library may report damage this way; any other exception is an error of the reader
    with suppress(FileError, ValueError):
        read(data, LIMITS)
    came = outcome(read.__module__.removeprefix("worker.parse."), data)
    if isinstance(came, FileError):
        assert came.reason in {Reason.PARSE_FAILED, Reason.NO_TEXT, Reason.BINARY, Reason.NOT_UTF8}
        assert came.message.endswith(".")
        return
    assert came.text.strip()
    for text in (came.text, came.header, came.title or ""):
        assert "\0" not in text
        assert text.encode().decode() == text


def test_objects_of_a_library_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(data: bytes, _: Limits) -> Document:
        raise ValueError(f"cannot identify {BytesIO(data)}, a < b")

    monkeypatch.setattr(csv, "read", read)
    came = outcome("data.csv", b"a,b")
    assert isinstance(came, FileError)
    assert came.message == "The file is damaged (ValueError: cannot identify, a < b); repair or convert it."
