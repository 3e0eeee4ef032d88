"""Reads code: its text unchanged, with definitions and references if its language has a grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from schemas.content.document import CodeDefinition, CodeReference, Document
from worker.formats.grammars import is_known
from worker.machine.memory.gc_pause import without_garbage_collection
from worker.parse.code import scripts
from worker.parse.code.syntax import Syntax
from worker.parse.limits import Limits
from worker.parse.sandbox import client as sandbox

T = TypeVar("T", bound=tuple[Any, ...])

#: Larger code is cut at lines: its tree takes up to 80 bytes per byte.
MAX_BYTES = 4_000_000

#: Processor time that a tree may take: in seconds for any text, and more for each byte. Real code takes less than a
#: ninth of it, in any language: a slow machine must find the same definitions.
_BASE_SECONDS = 1.0
_SECONDS_PER_BYTE = 3e-6

#: Words that distinguish a C++ header from a C one, because both are called `.h`. Most C code contains none.
_CPP_WORDS = ("class ", "namespace", "template", "public:")
_CPP_CONSTRUCT = re.compile(
    r"^[ \t]*(?:(?:inline[ ]+)?namespace\b[^;(]*\{|template[ ]*<|(?:public|private|protected)[ ]*:[ \t]*$"
    r"|class[ ]+\w[\w ]*(?:[:;{]|$))",
    re.MULTILINE,
)


def read(text: str, language: str | None, limits: Limits) -> Document:
    """Return the document of a source text, with definitions and references if its language has a grammar.

    Otherwise it is cut at lines: also if the text is too long, mostly errors, or too much for its parser.
    """
    if language == "c" and any(word in text for word in _CPP_WORDS) and _CPP_CONSTRUCT.search(text):
        language = "cpp"
    plain = Document(text, "code", language)
    if language == "html" and len(text) <= MAX_BYTES:
        language, text = scripts.alone(text)
    data = text.encode(errors="replace")
    if language is None or len(data) > MAX_BYTES or not is_known(language):
        return plain
    return _with_syntax(plain, data, language, limits)


def _with_syntax(plain: Document, data: bytes, language: str, limits: Limits) -> Document:
    seconds = min(limits.seconds, _BASE_SECONDS + _SECONDS_PER_BYTE * len(data))
    syntax_columns = sandbox.syntax(data, language, replace(limits, seconds=seconds))
    with without_garbage_collection():
        return plain if syntax_columns is None else _structured(plain, syntax_columns)


def _structured(plain: Document, syntax_columns: Syntax) -> Document:
    names, kinds, scopes, *positions = syntax_columns["definitions"]
    scopes = list(map(tuple, scopes))
    definitions = _named_tuples(CodeDefinition, names, kinds, scopes, *positions)
    paths = [*((*scope, name) for scope, name in zip(scopes, names, strict=True)), ()]
    used, use_kinds, within, lines = syntax_columns["references"]
    # index -1 selects the last, empty path
    references = _named_tuples(CodeReference, used, use_kinds, map(paths.__getitem__, within), lines)
    return replace(plain, markup="code", definitions=definitions, references=references)


def _named_tuples(type_: type[T], *columns: Iterable[Any]) -> tuple[T, ...]:
    # the usual constructor of a named tuple takes twice as long
    return tuple(map(partial(tuple.__new__, type_), zip(*columns, strict=True)))
