"""Adjusts the legs' scores by features of files and symbols.

Each feature is 0 to 1 and has a weight; penalties have negative weights. The weights are settings (`RANKING_WEIGHTS`),
measured with `make bench-search`. `RANKING=simple` is the baseline for comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, TypeVar

from api.search.rank.definition_query import asked_names
from schemas.search import Context
from worker.tokens.keywords import code_words

T = TypeVar("T")
Row = Mapping[str, Any]

#: Words of questions that do not help to locate the answer.
_STOP_WORDS = frozenset(
    """
    a an and are as at be by can do does for from has have how if in into is it its not of on or so than that the their
    then there this to was we what when where which who why will with you
    """.split()  # noqa: SIM905 - a list of words reads better as one string
)
_QUOTED = re.compile(r'"([^"\n]{2,200})"|“([^”\n]{2,200})”')
_TEST = re.compile(r"(^|/)(tests?|testing|spec|specs|__tests__)/|(^|/)(test_|conftest)|[._-](test|tests|spec)\.\w+$")
_VENDORED = re.compile(r"(^|/)(vendor|vendored|_vendor|third_party|thirdparty|node_modules|site-packages|external)/")
_GENERATED = re.compile(
    r"\.(lock|min\.\w+|map|svg|snap)$|(^|/)(dist|build|generated|__generated__)/|_pb2\.py$|\.pb\.go$"
)
#: Words with which a query asks for what is otherwise penalized.
_ASKS_FOR = {
    "test": {"test", "tests", "testing", "tested", "fixture", "spec"},
    "vendored": {"vendor", "vendored", "vendoring", "bundled"},
    "generated": {"generated", "minified", "lockfile", "snapshot"},
}
#: Maximum paths and names whose terms a process caches.
REMEMBERED = 1 << 14
#: Characters above which a chunk counts as long: most of it is about something else.
LONG = 6_000
#: Words of a run that is searched for verbatim; maximum runs; leading words of a query from which runs are taken.
RUN, MOST_RUNS, MOST_WORDS = 4, 4, 64
#: Other words beside a name up to which it counts fully. With more, the query is less about the name.
SAID_WITH = 4
#: Minimum share of common words for two chunks to be near-duplicates.
ALIKE = 0.9


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a search asks for: words, names with the chunks that define them, phrases, and the caller's context.

    `asked`, 0 to 1, is how much the query is about its names: of several names, or in a long sentence, most are only
    mentioned. `marks` are kinds of files that are not penalized, because the query asks for them.
    """

    terms: frozenset[str]
    names: frozenset[str]
    asked: float
    defining: Collection[str]
    phrases: tuple[str, ...]
    runs: tuple[str, ...]
    context: Context
    marks: frozenset[str]


def wanted(texts: Sequence[str], defining: Collection[str], context: Context) -> Wanted:
    """Analyze what all queries of a search ask for."""
    joined = "\n".join(texts)
    names = [asked_names(text) for text in texts]
    asked = terms(joined)
    return Wanted(
        terms=asked,
        names=frozenset(name.lower() for of_text in names for name in of_text),
        asked=min((_asked(text, said) for text, said in zip(texts, names, strict=True) if said), default=0.0),
        defining=defining,
        phrases=phrases(joined),
        runs=tuple(run for text in texts for run in runs(text)),
        context=context,
        marks=frozenset(mark for mark, words in _ASKS_FOR.items() if asked & words),
    )


def _asked(text: str, names: Sequence[str]) -> float:
    """How much a query is about its names, 0 to 1."""
    others = terms(text) - terms(" ".join(names))
    return min(1.0, SAID_WITH / max(1, len(others))) / len(names)


def terms(text: str) -> frozenset[str]:
    """Words and parts of identifiers, in lower case, without stop words."""
    return frozenset(code_words(text).split()) - _STOP_WORDS


def phrases(text: str) -> tuple[str, ...]:
    """The texts in double quotes, in lower case."""
    return tuple((plain or curly).lower() for plain, curly in _QUOTED.findall(text))


def runs(text: str) -> list[str]:
    """At most `MOST_RUNS` runs of `RUN` lower-case words in a row. The code that printed a message contains them."""
    words = text.lower().split(maxsplit=MOST_WORDS)[:MOST_WORDS]
    found = [" ".join(words[at : at + RUN]) for at in range(len(words) - RUN + 1)]
    return found[:: len(found) // MOST_RUNS + 1]


def features(wanted: Wanted, row: Row) -> dict[str, float]:
    """The nonzero features of a chunk, 0 to 1 by name. Penalties are those with negative weights."""
    path, text = row["file_path"], row["chunk_text"]
    found = {mark: 1.0 for mark in _marks(path) if mark not in wanted.marks}
    if row["chunk_id"] in wanted.defining:
        found["definition"] = wanted.asked
    if row["symbol"]:
        found["symbol"] = _symbol(wanted, row["symbol"])
    if row["scope"]:
        found["scope"] = _share(wanted.terms, _name_terms(row["scope"]))
    found["path"] = _share(wanted.terms, _path_terms(path))
    if wanted.phrases:
        found["phrase"] = _phrases(wanted.phrases, text)
    # tests only quote text that stands elsewhere
    if wanted.runs and "test" not in found:
        found["verbatim"] = _phrases(wanted.runs, text)
    if wanted.context.path is not None:
        found["near_path"] = _near(wanted.context.path, path)
    if wanted.context.symbol is not None:
        found["near_symbol"] = _near_symbol(wanted.context.symbol, row)
    if len(text) > LONG:
        found["long"] = 1.0
    return {name: value for name, value in found.items() if value}


def most(weights: Mapping[str, float]) -> float:
    """The highest possible score: 1 plus all positive weights."""
    return 1 + sum(weight for weight in weights.values() if weight > 0)


def boosted(score: float, added: Mapping[str, float], most: float) -> float:
    """Add weighted features to a score and divide by `most`: at most 1, but penalties may take it below 0."""
    return (score + sum(added.values())) / most


def thinned(ranked: Sequence[T], text: Callable[[T], str], *, first: int) -> tuple[list[T], list[T]]:
    """Split into those to keep, and those of the `first` that nearly duplicate a better one."""
    # with their lengths: texts of very different length are no duplicates
    seen: list[tuple[int, frozenset[str]]] = []
    kept: list[T] = []
    repeated: list[T] = []
    for each in ranked[:first]:
        words = frozenset(text(each).split())
        at_least, at_most = ALIKE * len(words), len(words) / ALIKE
        like = [other for length, other in seen if at_least <= length <= at_most]
        if any(_alike(words, other) for other in like):
            repeated.append(each)
        else:
            kept.append(each)
            seen.append((len(words), words))
    return [*kept, *ranked[first:]], repeated


def _symbol(wanted: Wanted, symbol: str) -> float:
    """1 for a name that the query asks for, else the overlap of the symbol's parts and the query's words."""
    if symbol.lower() in wanted.names:
        return 1.0
    parts = _symbol_parts(symbol)
    shared = len(parts & wanted.terms)
    return shared * shared / (len(parts) * len(wanted.terms)) if shared else 0.0


@lru_cache(maxsize=REMEMBERED)
def _symbol_parts(symbol: str) -> frozenset[str]:
    return _name_terms(symbol) - {symbol.lower()} or _name_terms(symbol)


@lru_cache(maxsize=REMEMBERED)
def _name_terms(name: str) -> frozenset[str]:
    return terms(name)


@lru_cache(maxsize=REMEMBERED)
def _marks(path: str) -> tuple[str, ...]:
    """The penalized kinds of file that a path shows."""
    patterns = {"test": _TEST, "vendored": _VENDORED, "generated": _GENERATED}
    return tuple(name for name, pattern in patterns.items() if pattern.search(path))


@lru_cache(maxsize=REMEMBERED)
def _path_terms(path: str) -> frozenset[str]:
    pure = PurePosixPath(path)
    return terms(" ".join((*pure.parts[-3:-1], pure.stem)))


def _share(asked: frozenset[str], held: frozenset[str]) -> float:
    """The share of the `asked` words that are in `held`."""
    return len(asked & held) / len(asked) if asked else 0.0


def _phrases(asked: Sequence[str], text: str) -> float:
    lower = text.lower()
    return sum(phrase in lower for phrase in asked) / len(asked)


def _near(context: str, path: str) -> float:
    """1 for the caller's own file or folder, less for each level away from it."""
    here, there = PurePosixPath(context.strip("/")).parts, PurePosixPath(path).parts
    shared = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there)))
    return shared / max(len(here), 1)


def _near_symbol(context: str, row: Row) -> float:
    names = {context, *re.split(r"[./:#]+", context)} - {""}
    held = {row["symbol"], *(row["scope"] or "").split("/")}
    return float(bool(names & held))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether nine tenths of the words of either text are in both (Jaccard index)."""
    shared = len(one & other)
    return shared >= ALIKE * (len(one) + len(other) - shared)
