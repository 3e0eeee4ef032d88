"""Finds names whose definition a query asks for: `class Foo`, "where is foo defined?", `Foo::bar`, `parse_header`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from worker.tokens.language_words import unspaced_pairs


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Maximum names of one query.
_MAX_NAMES = 16
#: Characters of a query that are read. Names that it asks for stand at the beginning.
_MAX_CHARACTERS = 500
#: Queries whose names a process caches.
_CACHED_QUERIES = 4096

#: Words that only occur in code: whatever follows is a name.
_CODE = _words("def defp defmodule fn func impl typedef")
#: Words of both code and English: what follows is a name if it looks like one, or if it is the only other word.
_KINDS = _CODE | _words(
    "class function method type module interface struct enum trait namespace macro const var let val fun sub proc mod "
    "constant variable property record protocol object package mixin component decorator constructor field"
)
#: Words that may surround a definition's name and kind if the query asks for nothing else.
_AROUND = _KINDS | _words(
    "public private protected internal static abstract final sealed partial async export default pub unsafe extern "
    "inline constexpr virtual override readonly mut find show go to the a an definition declaration of"
)
_STOP = _words(
    "a an and are as at be by can do does each every for from how if in into is it its not of on or "
    "that the then this to was were what when where which who whose why will with"
)
#: Words that are not names unless the query marks them as such.
_COMMON = _KINDS | _STOP
#: Endings of files and hosts. A dotted word with one of them is not a definition.
_ENDINGS = _words(
    "bash c cc cfg com conf cpp cs css csv doc docx env go h hpp html ini ipynb io java js json jsonl jsx kt lock log "
    "md net org pdf php png pptx proto py pyi rb rs rst sh sql svg toml ts tsx txt xlsx xml yaml yml zip"
)

# a match must extend to the end of the name: trying parts of names would take quadratic time
_PLAIN = r"~?[^\W\d][\w$]*(?![\w$])"
_NAME = rf"{_PLAIN}(?:(?:\.|::|->|\#){_PLAIN})*"
_ALONE = re.compile(rf"\W*({_NAME})(?:\(\))?\W*")
#: Skips paths, addresses and words with hyphens. `call` distinguishes "foo()" from "file(s)".
_WORD = re.compile(
    rf"`(?P<ticked>{_NAME}[?!]?)(?:\([^`()]*\))?`"
    rf"|(?<![\w/\\$~-])(?<!\w[@.])(?P<word>{_NAME})(?![\w/\\@]|-\w)(?P<call>\((?!e?s\)))?"
)
_GO_RECEIVER = re.compile(r"\bfunc\s*\([^()]*\)")
#: A message printed by a program: the kind of error and its text.
_MESSAGE = re.compile(rf"\A\s*{_NAME}:\s(?=\s*\S+\s+\S)")
_SELF = re.compile(r"^(?:self|this|cls|super)(?:\.|->|::)")
_SEPARATOR = re.compile(r"\.|::|->|#")
_HUMP = re.compile(r"[a-z0-9][A-Z]|(?<![A-Z])[A-Z]{2,}[a-z]{2}|[^\W_]_|_[^\W_]")

_THING = (
    rf"(?:the\s+)?(?:(?:{'|'.join(sorted(_KINDS))})\s+)?`?({_NAME})`?(?:\(\))?(?:\s+(?:{'|'.join(sorted(_KINDS))}))?"
)
_DEFINED = re.compile(
    rf"\bwhere(?:\s+is|\s+are|'s)\s+{_THING}\s+(?:defined|declared|implemented)\b"
    rf"|\b(?:where\s+do\s+(?:we|you|they)\s+(?:define|declare|implement)|(?:definition|declaration)\s+of)\s+{_THING}\W*$",
    re.IGNORECASE,
)


def names_in_query(query: str) -> tuple[str, ...]:
    """The distinct names a query asks for, qualified as written, by first appearance; at most 16.

    A plain word is a name only if it is the whole query, or if the query says so ("function search"). The kind of a
    printed error is not ("ValueError: not a number"). In a script without spaces a whole sentence is one word, so there
    the query must say so. Of a long query only the beginning is read.
    """
    return _names(_beginning(query))


def _beginning(query: str) -> str:
    """The first `_MAX_CHARACTERS` characters, cut between words."""
    text = query.strip()
    return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS].rsplit(maxsplit=1)[0]


# cached: a search needs the names of each query several times
@lru_cache(maxsize=_CACHED_QUERIES)
def _names(query: str) -> tuple[str, ...]:
    alone = _ALONE.fullmatch(query)
    if alone is not None and not unspaced_pairs(alone[1]):
        return () if _is_file(alone[1]) else (_without_self(alone[1]),)
    text = _GO_RECEIVER.sub("func", _MESSAGE.sub("", query, count=1))
    defined = {name for match in _DEFINED.finditer(text) for name in match.groups() if name}
    names = (_without_self(name) for name in _names_among(text, list(_WORD.finditer(text)), defined))
    return tuple(islice(dict.fromkeys(names), _MAX_NAMES))


def _names_among(text: str, words: Sequence[re.Match[str]], defined: set[str]) -> Iterator[str]:
    is_single_word = _is_single_word(words)
    for position, match in enumerate(words):
        name = match["ticked"] or match["word"]
        if match["ticked"] or name in defined:
            yield name
        elif name.lower() in _COMMON:
            continue
        elif match["call"] or _is_identifier(name) or _has_keyword(text, words, position, single_word=is_single_word):
            yield name


def _is_single_word(words: Sequence[re.Match[str]]) -> bool:
    """Whether the query is one word, apart from keywords around it."""
    return sum((match["word"] or "").lower() not in _AROUND for match in words) == 1


def _has_keyword(text: str, words: Sequence[re.Match[str]], position: int, *, single_word: bool) -> bool:
    """Whether a keyword before or after a word marks it as a name."""
    word = words[position]["word"]
    if word in _AROUND:
        return False
    is_proper = not word.islower()
    before = _adjacent(text, words[position - 1], words[position]) if position else ""
    if before in _CODE or (before in _KINDS and (is_proper or single_word)):
        return True
    is_last = position + 1 == len(words)
    return (
        not is_last
        and _adjacent(text, words[position + 1], words[position]) in _KINDS
        and (single_word or (is_proper and position > 0))
    )


def _adjacent(text: str, other: re.Match[str], word: re.Match[str]) -> str:
    """The other word in lower case; "" if more than white space is between the two."""
    first, second = sorted((other, word), key=re.Match.start)
    return (other["word"] or "").lower() if text[first.end() : second.start()].isspace() else ""


def _is_identifier(name: str) -> bool:
    """Whether a word is shaped like an identifier: camelCase, snake_case, CONSTANT_CASE, or qualified."""
    if _is_file(name):
        return False
    parts = _SEPARATOR.split(name)
    return "::" in name or bool(_HUMP.search(name)) or (len(parts) > 1 and any(len(part) > 1 for part in parts))


def _is_file(name: str) -> bool:
    return name.rpartition(".")[2].lower() in _ENDINGS and "." in name


def _without_self(name: str) -> str:
    return _SELF.sub("", name)
