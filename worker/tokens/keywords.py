"""Two keyword fields of a chunk: its natural language, and the words and parts of its identifiers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

#: A part of a file's code version: files whose words an earlier one made are read again by the next reindex.
VERSION = "words-1"
#: Characters of a token. Names are shorter; what is longer is data, such as a hash, base64 or minified text.
MAX_TOKEN = 64
#: Parts of one name, `getUserNameById` has five: what changes case and digits more often is data too.
MAX_PARTS = 16
#: Words whose tokens a process remembers: some 15 MB, and nearly every word of a folder.
REMEMBERED = 1 << 16

#: Accents and vowel signs, which belong to the letter before them; beyond this range there are hardly any.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x12000)) if unicodedata.category(c).startswith("M"))
_NAME = rf"\w+(?:[{_MARKS}]+\w*)*"
#: What dots and hyphens join is one word: `os.path`, `dry-run`, `3.11`, `giraffe.txt`. ASCII takes half the time.
_WORD, _ASCII_WORD = re.compile(rf"{_NAME}(?:[.-]{_NAME})*"), re.compile(r"\w+(?:[.-]\w+)*", re.ASCII)
_JOINTS, _SEPARATORS = re.compile("[.-]"), re.compile("[._-]+")
#: Digits, or letters: capitals up to the one that begins the next part, or one part with or without its capital.
_PARTS = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ASKED_PARTS = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Keywords:
    """What a chunk is found by: `text` is natural language, `code` are tokens with spaces between them."""

    text: str
    code: str


def keywords_of(path: str, context: str, text: str) -> Keywords:
    """Both fields of a chunk of the file at `path`; path and context are part of what it says."""
    said = f"{path}\n{context}\n{text}"
    return Keywords(said, code_words(said))


def code_words(text: str) -> str:
    """The tokens of every word of a text, lower case, in order, with spaces between them.

    A word's tokens are itself and its parts between dots, hyphens, underscores, and changes of case, letters and
    digits: `HTTPServerError2` is `httpservererror2 http server error 2`. A token has at most `MAX_TOKEN` characters,
    longer ones are left out; they are letters, digits, "_", "." and "-". Time and result grow with the text's length.
    """
    return " ".join(map(_tokens, _words(text)))


def asked_words(query: str) -> list[str]:
    """The tokens to look for, each once: as `code_words`, but digits stay with the letters around them.

    So who asks for `kiwi17` gets it, and not every `kiwi` and every `17`.
    """
    tokens = " ".join(_tokens(word, _ASKED_PARTS) for word in _words(query))
    return list(dict.fromkeys(tokens.split()))


def _words(text: str) -> Iterator[str]:
    """Words short enough to be names; of a longer one what it joins."""
    for word in _ASCII_WORD.findall(text) if text.isascii() else _WORD.findall(unicodedata.normalize("NFKC", text)):
        if len(word) > MAX_TOKEN:
            yield from filter(None, _shorter(word))
        elif word != "_":
            yield word


def _shorter(word: str) -> Iterator[str]:
    for name in _JOINTS.split(word):
        yield from [name] if len(name) <= MAX_TOKEN else (part for part in name.split("_") if len(part) <= MAX_TOKEN)


@lru_cache(maxsize=REMEMBERED)
def _tokens(word: str, parted: re.Pattern[str] = _PARTS) -> str:
    """The tokens of a word of at most `MAX_TOKEN` characters, each once."""
    parts = parted.findall(word) if word.isascii() else _cased(word)
    names = _JOINTS.split(word)
    return " ".join(dict.fromkeys([word, *names, *(parts if len(parts) <= MAX_PARTS else [])])).lower()


def _cased(word: str) -> list[str]:
    """The parts of a word in any script: those between separators, cut where a capital follows a small letter."""
    edges = [n for n in range(1, len(word)) if word[n - 1].islower() and word[n].isupper()]
    pieces = [word[start:end] for start, end in zip([0, *edges], [*edges, None], strict=True)]
    return [part for piece in pieces for part in _SEPARATORS.split(piece) if part]
