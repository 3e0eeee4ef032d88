"""Derives a chunk's two keyword fields: its natural language, and the words and parts of its identifiers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

#: Part of a file's code version: the next reindex reads files again whose words came from an earlier version.
VERSION = "words-1"
#: Maximum characters in a token. Names are shorter; anything longer is data, such as a hash, base64 or minified text.
MAX_TOKEN = 64
#: Maximum parts of one name; `getUserNameById` has five. What changes case and digits more often is data, too.
MAX_PARTS = 16
#: Words whose tokens a process caches: some 15 MB, and nearly every word of a folder.
REMEMBERED = 1 << 16

#: Accents and vowel signs, which belong to the letter before them. Hardly any exist beyond this range.
_COMBINING_MARKS = "".join(c for c in map(chr, range(0x300, 0x12000)) if unicodedata.category(c).startswith("M"))
_NAME = rf"\w+(?:[{_COMBINING_MARKS}]+\w*)*"
#: Dots and hyphens join one word: `os.path`, `dry-run`, `3.11`, `giraffe.txt`. The ASCII variant takes half the time.
_WORD = re.compile(rf"{_NAME}(?:[.-]{_NAME})*")
_ASCII_WORD = re.compile(r"\w+(?:[.-]\w+)*", re.ASCII)
_JOINTS = re.compile("[.-]")
_SEPARATORS = re.compile("[._-]+")
#: Digits; capitals up to the one that starts the next part; or lower-case letters with or without their capital.
_PARTS = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_QUERY_PARTS = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Keywords:
    """What a chunk is found by: `text` is natural language, `code` holds tokens separated by spaces."""

    text: str
    code: str


def keywords_of(path: str, context: str, text: str) -> Keywords:
    """Both fields of a chunk of the file at `path`. The path and the context are included."""
    searchable = f"{path}\n{context}\n{text}"
    return Keywords(searchable, code_words(searchable))


def code_words(text: str) -> str:
    """The tokens of every word of a text, in lower case, in order, separated by spaces.

    A word's tokens are the word itself and its parts. Parts are separated by dots, hyphens, underscores, and changes of
    case or between letters and digits: `HTTPServerError2` is `httpservererror2 http server error 2`. A token consists
    of letters, digits, "_", "." and "-". Tokens of more than `MAX_TOKEN` characters are left out. Time and result grow
    linearly with the text.
    """
    return " ".join(map(_tokens, _words(text)))


def query_words(query: str) -> list[str]:
    """The distinct tokens to search for: as in `code_words`, but digits stay with the letters around them.

    A search for `kiwi17` therefore finds that, and not every `kiwi` and every `17`.
    """
    tokens = " ".join(_tokens(word, _QUERY_PARTS) for word in _words(query))
    return list(dict.fromkeys(tokens.split()))


def _words(text: str) -> Iterator[str]:
    """Words short enough to be names; a longer word is divided into the names it joins."""
    for word in _ASCII_WORD.findall(text) if text.isascii() else _WORD.findall(unicodedata.normalize("NFKC", text)):
        if len(word) > MAX_TOKEN:
            yield from filter(None, _names_in_long_word(word))
        elif word != "_":
            yield word


def _names_in_long_word(word: str) -> Iterator[str]:
    for name in _JOINTS.split(word):
        yield from [name] if len(name) <= MAX_TOKEN else (part for part in name.split("_") if len(part) <= MAX_TOKEN)


@lru_cache(maxsize=REMEMBERED)
def _tokens(word: str, part_pattern: re.Pattern[str] = _PARTS) -> str:
    """The distinct tokens of a word of at most `MAX_TOKEN` characters."""
    parts = part_pattern.findall(word) if word.isascii() else _parts_by_case(word)
    names = _JOINTS.split(word)
    return " ".join(dict.fromkeys([word, *names, *(parts if len(parts) <= MAX_PARTS else [])])).lower()


def _parts_by_case(word: str) -> list[str]:
    """The parts of a word in any script: divided at separators, and where a capital follows a lower-case letter."""
    edges = [n for n in range(1, len(word)) if word[n - 1].islower() and word[n].isupper()]
    runs = [word[start:end] for start, end in zip([0, *edges], [*edges, None], strict=True)]
    return [part for run in runs for part in _SEPARATORS.split(run) if part]
