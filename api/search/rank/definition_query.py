"""The names that a query asks the definition of: `class Foo`, "where is foo defined?", `Foo::bar`, `parse_header`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Names of one query, at most.
_MAX_NAMES = 16
#: Characters of a query that are read: what is asked for by name stands at the beginning.
_MAX_READ = 500

#: Words of no language but programs': whatever follows is a name.
_CODE = _words("def defp defmodule fn func impl typedef")
#: Words of programs and of English: what follows is a name if it looks like one, or if nothing else is asked.
_KINDS = _CODE | _words(
    "class function method type module interface struct enum trait namespace macro const var let val fun sub proc mod "
    "constant variable property record protocol object package mixin component decorator constructor field"
)
#: What may stand around a definition's name and kind where nothing else is asked.
_AROUND = _KINDS | _words(
    "public private protected internal static abstract final sealed partial async export default pub unsafe extern "
    "inline constexpr virtual override readonly mut find show go to the a an definition declaration of"
)
_STOP = _words(
    "a an and are as at be by can do does each every for from how if in into is it its not of on or "
    "that the then this to was were what when where which who whose why will with"
)
#: What names nothing, unless it is said to.
_COMMON = _KINDS | _STOP
#: Endings of files and hosts: a dotted word with one of them is no definition.
_ENDINGS = _words(
    "bash c cc cfg com conf cpp cs css csv doc docx env go h hpp html ini ipynb io java js json jsonl jsx kt lock log "
    "md net org pdf php png pptx proto py pyi rb rs rst sh sql svg toml ts tsx txt xlsx xml yaml yml zip"
)

# a name ends where no more of it follows: no part of one is tried, so that no query takes time quadratic in its length
_PLAIN = r"~?[^\W\d][\w$]*(?![\w$])"
_NAME = rf"{_PLAIN}(?:(?:\.|::|->|\#){_PLAIN})*"
_ALONE = re.compile(rf"\W*({_NAME})(?:\(\))?\W*")
#: Paths, addresses and words with hyphens are passed over; `call` tells "foo()" from "file(s)".
_WORD = re.compile(
    rf"`(?P<ticked>{_NAME}[?!]?)(?:\([^`()]*\))?`"
    rf"|(?<![\w/\\$~-])(?<!\w[@.])(?P<word>{_NAME})(?![\w/\\@]|-\w)(?P<call>\((?!e?s\)))?"
)
_GO_RECEIVER = re.compile(r"\bfunc\s*\([^()]*\)")
#: What a program printed: the kind of error, and what it says.
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


def asked_names(query: str) -> tuple[str, ...]:
    """Names, qualified as they are written, by first appearance, each once, at most 16; none in plain language.

    A word of plain language is one only if it is the whole query, or the query says that it is one ("function search").
    The kind of a message that a program printed is none ("ValueError: not a number"). Of a long query only the
    beginning is read.
    """
    return _names(_beginning(query))


def _beginning(query: str) -> str:
    """The first words, none of them cut."""
    text = query.strip()
    return text if len(text) <= _MAX_READ else text[:_MAX_READ].rsplit(maxsplit=1)[0]


# a search asks several times for the names of each of its queries
@lru_cache(maxsize=4096)
def _names(query: str) -> tuple[str, ...]:
    alone = _ALONE.fullmatch(query)
    if alone is not None:
        return () if _is_file(alone[1]) else (_bare(alone[1]),)
    text = _GO_RECEIVER.sub("func", _MESSAGE.sub("", query, count=1))
    defined = {name for found in _DEFINED.finditer(text) for name in found.groups() if name}
    names = (_bare(name) for name in _chosen(text, list(_WORD.finditer(text)), defined))
    return tuple(islice(dict.fromkeys(names), _MAX_NAMES))


def _chosen(text: str, words: Sequence[re.Match[str]], defined: set[str]) -> Iterator[str]:
    only = _only_one(words)
    for place, found in enumerate(words):
        name = found["ticked"] or found["word"]
        if found["ticked"] or name in defined:
            yield name
        elif name.lower() in _COMMON:
            continue
        elif found["call"] or _is_shaped(name) or _is_told(text, words, place, only=only):
            yield name


def _only_one(words: Sequence[re.Match[str]]) -> bool:
    """Whether the query is one word with nothing but keywords around it."""
    return sum((found["word"] or "").lower() not in _AROUND for found in words) == 1


def _is_told(text: str, words: Sequence[re.Match[str]], place: int, *, only: bool) -> bool:
    """Whether a keyword before or behind a word says that it names something."""
    word = words[place]["word"]
    if word in _AROUND:
        return False
    is_proper = not word.islower()
    before = _adjacent(text, words[place - 1], words[place]) if place else ""
    if before in _CODE or (before in _KINDS and (is_proper or only)):
        return True
    is_last = place + 1 == len(words)
    return (
        not is_last
        and _adjacent(text, words[place + 1], words[place]) in _KINDS
        and (only or (is_proper and place > 0))
    )


def _adjacent(text: str, other: re.Match[str], word: re.Match[str]) -> str:
    """The other word in lower case, "" if there is more than space between the two."""
    first, second = sorted((other, word), key=re.Match.start)
    return (other["word"] or "").lower() if text[first.end() : second.start()].isspace() else ""


def _is_shaped(name: str) -> bool:
    """Whether no sentence has such a word: camelCase, snake_case, CONSTANT_CASE, or qualified."""
    if _is_file(name):
        return False
    parts = _SEPARATOR.split(name)
    return "::" in name or bool(_HUMP.search(name)) or (len(parts) > 1 and any(len(part) > 1 for part in parts))


def _is_file(name: str) -> bool:
    return name.rpartition(".")[2].lower() in _ENDINGS and "." in name


def _bare(name: str) -> str:
    return _SELF.sub("", name)
