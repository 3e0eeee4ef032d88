"""Derives a chunk's two keyword fields: stems of natural language, and the words and parts of its identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from schemas.content.document import DocumentProperties
from worker.tokens.invisible import plain
from worker.tokens.language_words import (
    MARKS,
    REMEMBERED_LANGUAGES,
    SIGNED,
    groups,
    is_signed,
    of_group,
    query_words,
    stop_words_of,
    unspaced_pairs,
    with_compounds,
)
from worker.tokens.languages import DEFAULT
from worker.tokens.remembered import Cached, Remembered, same
from worker.tokens.spellings import (
    asked_also,
    canonical,
    hash_in,
    in_letters,
    is_hash,
    joined,
    numbered,
    plurals,
    short_hash,
    without_joints,
)

#: Part of a file's code version: the next run reads a file again if another version extracted its words.
VERSION = "words-7"
#: Maximum characters in a token. Names are shorter; longer words are data, such as a hash, base64 or minified text.
MAX_TOKEN = 64
#: Maximum parts of one name; `getUserNameById` has five. Words with more changes of case or digits are data, too.
MAX_PARTS = 16

#: BM25's parameters in every store, as Lance fixes them: saturation of repeated words, and length normalisation.
BM25_K1, BM25_B = 1.2, 0.75

_NAME = rf"\w+(?:[{MARKS}]+\w*)*"
#: Dots and hyphens join one word: `os.path`, `dry-run`, `3.11`, `giraffe.txt`. The ASCII variant takes half the time.
_WORD = re.compile(rf"{SIGNED}|{_NAME}(?:[.-]{_NAME})*")
_ASCII_WORD = re.compile(rf"{SIGNED}|\w+(?:[.-]\w+)*", re.ASCII)
_JOINTS = re.compile("[.-]")
_SEPARATORS = re.compile("[._-]+")
#: Digits; capitals up to the one that starts the next part; or lower-case letters with or without their capital.
_PARTS = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_QUERY_PARTS = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Keywords:
    """The searchable tokens of a chunk, separated by spaces: `text` holds stems, `code` identifiers."""

    text: str
    code: str


#: The assumed languages of documents until an index has its own.
IN_ENGLISH = frozenset({DEFAULT})


def with_properties(path: str, properties: DocumentProperties) -> str:
    """Return the words that find all chunks of a file: its path, and the words of its document properties."""
    return f"{path}\n{properties.words}" if properties.words else path


def keywords_of(path: str, context: str, text: str, language: str) -> Keywords:
    """Return both fields of a chunk of the file at `path`, in a document of that language.

    The path and the context are included. The path may be one `with_properties`.
    """
    normal, language = plain(f"{path}\n{context}\n{text}"), language or DEFAULT
    of_text = groups(normal)
    # neither a word of the text's language nor a name with signs spans two groups
    found = [*map(_both_fields(language).__getitem__, of_text)]
    of_language = " ".join([stem for stem, _ in found if stem])
    names = [name for _, name in found if name]
    return Keywords(with_compounds(of_language, of_text, language), " ".join([*names, *numbered(normal)]))


def code_words(text: str) -> str:
    """Return the tokens of every word of a text, in lower case, in order, separated by spaces.

    A word's tokens are its canonical spelling and its parts. Parts are separated by dots, hyphens, underscores, and
    changes of case or between letters and digits: `HTTPServerError2` is `httpservererror2 http server error 2`. A hash
    has its beginning instead. A token consists of letters, digits, "_", "." and "-"; `C++`, `C#` and `.NET` are tokens,
    too. Tokens of more than `MAX_TOKEN` characters are left out. Time and result grow linearly with the text.
    """
    normal = plain(text)
    return " ".join(filter(None, [_remembered.joined(groups(normal)), *numbered(normal)]))


def query_tokens(query: str, field: Literal["text", "code"], languages: frozenset[str]) -> list[str]:
    """Return the distinct tokens to search for in a field. Stop words are left out, unless nothing else is left.

    In "code" digits stay with adjacent letters: a search for `kiwi17` finds that, and not every `kiwi` and every `17`.
    Adjacent words also count as one: `kiwi 17` finds `kiwi17` first.
    """
    if field == "text":
        return query_words(query, languages)
    words = list(_words(query))
    dropped = stop_words_of(words, languages)
    kept = [word for word in words if word.lower() not in dropped] or words
    tokens = [word.lower() if is_signed(word) else _tokens(word, _QUERY_PARTS) for word in kept]
    spellings = joined(plain(query), dropped if len(kept) < len(words) else ())
    others = [
        other
        for word in kept
        for other in (short_hash(word), *plurals(word.lower()), *in_letters(word.lower()), *asked_also(word))
    ]
    return list(dict.fromkeys(" ".join([*tokens, *spellings, *others]).lower().split()))


def phrase_tokens(phrase: str) -> tuple[Literal["text", "code"], list[str]]:
    """Return the distinct tokens that each chunk with a phrase has, and their field.

    Tokens of "code" are not stems, so they are the same in all languages; but a word that no space ends is one token.
    """
    pairs = unspaced_pairs(phrase)
    words = (word if is_signed(word) else canonical(name) for word in _words(phrase) for name in _JOINTS.split(word))
    tokens = list(dict.fromkeys(pairs or map(str.lower, filter(None, words))))
    return ("text" if pairs else "code"), tokens


def _words(text: str) -> Iterator[str]:
    """Yield words short enough to be names; a longer word is divided into the names that it joins."""
    for word in _ASCII_WORD.findall(text) if text.isascii() else _WORD.findall(plain(text)):
        if len(word) > MAX_TOKEN:
            yield from filter(None, _names_in_long_word(word))
        elif word != "_":
            yield word


def _names_in_long_word(word: str) -> Iterator[str]:
    for name in _JOINTS.split(word):
        yield from [name] if len(name) <= MAX_TOKEN else (part for part in name.split("_") if len(part) <= MAX_TOKEN)


def _tokens(word: str, part_pattern: re.Pattern[str] = _PARTS) -> str:
    """Return the distinct tokens of a word of at most `MAX_TOKEN` characters."""
    letters = without_joints(word)
    if not word.isascii():
        parts = _parts_by_case(word)
    elif letters.islower() and letters.isalpha():
        # most words have neither capitals nor digits, which takes half of the time
        parts = word.replace("_", " ").replace("-", " ").replace(".", " ").split()
        if "_" not in word and word[0] != ".":
            return " ".join(dict.fromkeys([letters, *parts]))
    else:
        parts = part_pattern.findall(word)
    if len(parts) > MAX_PARTS:
        parts = []
    if word.isalnum():
        is_word = word.isalpha() or not is_hash(word)
        tokens, parts = ([word], parts) if is_word else ([word, short_hash(word)], [])
    elif "." in word or "-" in word or is_signed(word):
        names = list(filter(None, word.rstrip("+#").replace("-", ".").split(".")))
        hashes = () if letters.isalpha() else filter(None, map(hash_in, names))
        tokens = [canonical(word), *map(canonical, names), *hashes]
    else:
        tokens = [canonical(word)]
    return " ".join(dict.fromkeys([*tokens, *parts])).lower()


def _parts_by_case(word: str) -> list[str]:
    """Return the parts of a word in any script: split at separators, and where a capital follows a small letter."""
    edges = [n for n in range(1, len(word)) if word[n - 1].islower() and word[n].isupper()]
    runs = [word[start:end] for start, end in zip([0, *edges], [*edges, None], strict=True)]
    return [part for run in runs for part in _SEPARATORS.split(run) if part]


def _group_tokens(group: str) -> str:
    if len(group) <= MAX_TOKEN and group.isascii():
        if group.isalpha() and group.islower():
            return group
        if group.isalnum() or (group.isidentifier() and group != "_"):
            return _tokens(group)
    return " ".join(map(_tokens, _words(group)))


#: The tokens of groups, in order.
_remembered = Remembered(_group_tokens)


@lru_cache(REMEMBERED_LANGUAGES)
def _both_fields(language: str) -> Cached[tuple[str, str]]:
    """Return the tokens of groups for both fields, in one cache: two lookups would take almost twice as long as one."""

    def both(group: str) -> tuple[str, str]:
        stems, names = of_group(group, language), _group_tokens(group)
        return same(group, stems), same(group, names)

    return Cached(both)
