"""The ways in which formats are read, by the names that their rows state."""

from __future__ import annotations

from collections.abc import Iterator

from worker.reading import Way, escapes, markup, tex


def _none(_text: str) -> Iterator[str]:
    return iter(())


#: Escapes and entities in text that is written as it is read otherwise.
TEXT = Way(escapes.anywhere, escapes.anywhere, escapes.words_in_code, r"\\[uUNx23]|&#?\w+;")
JSON = Way(escapes.in_json, escapes.in_json, escapes.words_in_json, r"\\|&#?\w+;")
CODE = Way(escapes.letters, escapes.anywhere, escapes.words_in_code, r"\\[uUNx23]|&#?\w+;")
MARKDOWN = Way(markup.edits, markup.edits, escapes.words_in_code, r"\\[uUNx23_]|&#?\w+;|<(?:rt|RT)\b")
TEX = Way(tex.edits, tex.edits, _none, r"\\|\{")
