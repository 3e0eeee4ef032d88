"""Adjusts the legs' scores by features of files and symbols.

Each feature is 0 to 1 and has a weight; penalties have negative weights. The weights are in `weights`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from operator import eq
from pathlib import PurePosixPath
from typing import Literal

from api.search.rank.definition_query import names_in_query
from schemas.queries.search import Context
from worker.state.search.found_chunks import HitRow
from worker.tokens.keywords import code_words
from worker.tokens.spellings import canonical

#: Words of questions that do not help to locate the answer.
_STOP_WORDS = frozenset(
    """
    a an and are as at be by can do does for from has have how if in into is it its not of on or so than that the their
    then there this to was we what when where which who why will with you
    """.split()  # noqa: SIM905 - a list of words reads better as one string
)
_QUOTED = re.compile(r'"([^"\n]{2,200})"|“([^”\n]{2,200})”')
_TEST = re.compile(
    r"(^|[/._-])([Tt]ests?|testing|testdata|specs?|__tests__)/|(^|/)(test_|conftest|tests?\.)|[._-](tests?|spec)\.\w+$"
    r"|[a-z0-9](Tests?|Spec)\.\w+$"
)
#: The parameters of a function or a type, and signs around the name of a type.
_ARGUMENTS, _WITHOUT_BRACKETS = re.compile(r"<[^<>]*>|(?<=[\w>])\(.*"), dict.fromkeys(map(ord, "()*&"))
#: Words with which a query asks for tests, which otherwise rank lower.
_ASKS_FOR_TESTS = frozenset(("test", "tests", "testing", "tested", "fixture", "spec"))
#: Maximum paths and names whose terms a process caches.
MAX_CACHED_TERMS = 1 << 14
#: Minimum characters of a word's beginning that makes it resemble another word.
MIN_ROOT = 4
#: Maximum characters of an ending, such as that of `dependency`, whose root begins `dependencies`.
MAX_ENDING = 1
#: Words of a run that is searched for verbatim.
RUN_WORDS = 4
#: Maximum runs of one query.
MAX_RUNS = 4
#: Runs are taken from this many leading words of a query.
MAX_RUN_SOURCE_WORDS = 64
#: How much a definition counts of several of the name, unless the query has the name of its file.
HOMONYM = 0.8
#: How much a file in all folders of the caller's file counts, beside that file.
NEIGHBOUR = 0.5
#: A name counts fully if the query has at most this many other words. With more, the query is less about the name.
MAX_WORDS_BESIDE_NAME = 4


@dataclass(frozen=True, slots=True)
class QuerySignals:
    """The signals of a query: words, names with their defining chunks, phrases, and the caller's context.

    `forms` are the beginnings and the roots of each term. `name_share`, 0 to 1, is how much the query is about its
    names: of several names, or in a long sentence, most are only mentioned. `of_paths` keeps the features of each path:
    chunks of one file share it.
    """

    terms: frozenset[str]
    forms: tuple[tuple[frozenset[str], frozenset[str]], ...]
    names: frozenset[str]
    name_share: float
    defining: Collection[str]
    phrases: tuple[str, ...]
    runs: tuple[str, ...]
    context: Context
    asks_for_tests: bool
    of_paths: dict[str, Mapping[str, float]] = field(default_factory=dict, compare=False)

    @property
    def about_files(self) -> float:
        """How much a search asks for files, 0 to 1. A definition must not lose to the file that names it most often.

        Words in quotes stand in one place.
        """
        if self.phrases:
            return 0.0
        return 1 - self.name_share if self.defining else 1.0


def query_signals(texts: Sequence[str], defining: Collection[str], context: Context) -> QuerySignals:
    """Analyze what all queries of a search ask for. `defining` are the chunks that define a name of the queries."""
    joined = "\n".join(texts)
    names_by_text = [names_in_query(text) for text in texts]
    query_terms = terms(joined)
    shares = [_name_share(text, names) for text, names in zip(texts, names_by_text, strict=True) if names]
    return QuerySignals(
        terms=query_terms,
        forms=tuple((_beginnings(term), _roots(term)) for term in query_terms),
        names=frozenset(name.lower() for names in names_by_text for name in names),
        name_share=min(shares, default=0.0),
        defining=defining,
        phrases=phrases(joined),
        runs=tuple(run for text in texts for run in word_runs(text)),
        context=context,
        asks_for_tests=not query_terms.isdisjoint(_ASKS_FOR_TESTS),
    )


def name_share(text: str) -> float:
    """The share of a query that names or quotes something, 0 to 1."""
    if phrases(text):
        return 1.0
    names = names_in_query(text)
    return _name_share(text, names) * len(names) if names else 0.0


def _name_share(text: str, names: Sequence[str]) -> float:
    """The share of a query that its names make up, 0 to 1."""
    others = terms(text) - terms(" ".join(names))
    return min(1.0, MAX_WORDS_BESIDE_NAME / max(1, len(others))) / len(names)


def terms(text: str) -> frozenset[str]:
    """Words and parts of identifiers, in lower case, without stop words."""
    return frozenset(code_words(text).split()) - _STOP_WORDS


def phrases(text: str) -> tuple[str, ...]:
    """The texts in double quotes, in lower case, with single spaces."""
    return tuple(_flat(plain or curly) for plain, curly in _QUOTED.findall(text))


def word_runs(text: str) -> list[str]:
    """At most `MAX_RUNS` runs of `RUN_WORDS` lower-case words in a row.

    The code that printed a message contains them.
    """
    words = text.lower().split(maxsplit=MAX_RUN_SOURCE_WORDS)[:MAX_RUN_SOURCE_WORDS]
    runs = [" ".join(words[start : start + RUN_WORDS]) for start in range(len(words) - RUN_WORDS + 1)]
    return runs[:: len(runs) // MAX_RUNS + 1]


def chunk_features(signals: QuerySignals, row: HitRow) -> dict[str, float]:
    """The nonzero features of a chunk, 0 to 1 by name. Penalties are those with negative weights."""
    path, text = row.file_path, row.ranked_text
    of_path = signals.of_paths.get(path)
    if of_path is None:
        of_path = signals.of_paths[path] = _path_features(signals, path)
    features = dict(of_path)
    if row.chunk_id in signals.defining and signals.name_share:
        is_named = "stem" in of_path or len(signals.defining) == 1
        features["definition"] = signals.name_share * (1.0 if is_named else HOMONYM)
    if row.symbol and (overlap := _symbol_overlap(signals, row.symbol)):
        features["symbol"] = overlap
    if signals.phrases and (share := _contained(signals.phrases, _flat(text))):
        features["phrase"] = share
    # tests only quote text that stands elsewhere
    if signals.runs and "test" not in features and (share := _contained(signals.runs, text.lower())):
        features["verbatim"] = share
    if signals.context.symbol is not None and (feature := _symbol_feature(signals.context, row)):
        features[feature] = 1.0
    return features


def _path_features(signals: QuerySignals, path: str) -> Mapping[str, float]:
    """The features that all chunks of a file share."""
    features, stem = dict[str, float](), _stem_terms(path)
    if not signals.asks_for_tests and _is_test(path):
        features["test"] = 1.0
    if overlap := _path_overlap(signals.forms, path):
        features["path"] = overlap
    if stem and stem <= signals.terms:
        features["stem"] = 1.0
    if signals.context.path is not None and (nearness := _nearness(signals.context.path, path)):
        features["near_path"] = nearness
    return features


def max_score(weights: Mapping[str, float]) -> float:
    """The highest possible score: 1 plus all positive weights of features."""
    return 1 + sum(weight for name, weight in weights.items() if weight > 0 and name != "coherence")


def _symbol_overlap(signals: QuerySignals, symbol: str) -> float:
    """1 for a name that the query asks for, else the overlap of the symbol's parts and the query's words."""
    if symbol.lower() in signals.names:
        return 1.0
    parts = _symbol_parts(symbol)
    if parts.isdisjoint(signals.terms):
        return 0.0
    shared = len(parts & signals.terms)
    return shared * shared / (len(parts) * len(signals.terms))


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _symbol_parts(symbol: str) -> frozenset[str]:
    of_name = terms(symbol)
    return of_name - {canonical(symbol).lower()} or of_name


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _is_test(path: str) -> bool:
    return _TEST.search(path) is not None


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _stem_terms(path: str) -> frozenset[str]:
    # `SqlMapper.Settings.cs` is about a part of what `SqlMapper.cs` is about
    stem = _stem(path.rstrip("/").rsplit("/", 1)[-1].lstrip("."))
    return frozenset().union(*(_symbol_parts(part) for part in stem.split(".") if part))


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _path_terms(path: str) -> frozenset[str]:
    folders = [part for part in path.split("/") if part not in {"", "."}]
    name = folders.pop() if folders else ""
    return terms(" ".join((*folders[-2:], _stem(name))))


def _stem(name: str) -> str:
    """Return a file's name without its last extension, as `PurePosixPath.stem` does in a third of the time."""
    before, _, extension = name.rpartition(".")
    return before if before and extension else name


def _path_overlap(forms: Sequence[tuple[frozenset[str], frozenset[str]]], path: str) -> float:
    """The share of the query's words that a word of the path resembles: `dependencies` and `dependency`.

    `forms` are the beginnings and the roots of each word.
    """
    begins, roots = _path_beginnings(path)
    alike = 0
    for word_begins, word_roots in forms:
        if not (roots.isdisjoint(word_begins) and begins.isdisjoint(word_roots)):
            alike += 1
    return alike / len(forms) if forms else 0.0


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _path_beginnings(path: str) -> tuple[frozenset[str], frozenset[str]]:
    """All beginnings of the words of a path, and their roots."""
    words = _path_terms(path)
    begins = frozenset(begin for word in words for begin in _beginnings(word))
    return begins, frozenset(root for word in words for root in _roots(word))


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _beginnings(word: str) -> frozenset[str]:
    """The word, and its beginnings of at least `MIN_ROOT` characters."""
    return frozenset((word, *(word[:end] for end in range(MIN_ROOT, len(word)))))


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _roots(word: str) -> frozenset[str]:
    """The word with and without an ending of up to `MAX_ENDING` characters. Words that begin with one are alike."""
    return frozenset((word, *(word[:end] for end in range(max(MIN_ROOT, len(word) - MAX_ENDING), len(word)))))


def _contained(phrases: Sequence[str], text: str) -> float:
    """The share of the phrases that the text contains."""
    return sum(map(text.__contains__, phrases)) / len(phrases)


def _flat(text: str) -> str:
    """A text in lower case with single spaces, as phrases match whatever the white space."""
    return " ".join(text.lower().split())


def _nearness(context: str, path: str) -> float:
    """1 for the caller's file or folder, else at most `NEIGHBOUR`, by the share of the caller's folders."""
    here, there = PurePosixPath(context.strip("/")).parts, PurePosixPath(path).parts
    if here and there[: len(here)] == here:
        return 1.0
    folders = here[:-1]
    shared = sum(takewhile(bool, map(eq, folders, there[:-1])))
    return NEIGHBOUR * shared / len(folders) if folders else 0.0


def _symbol_feature(context: Context, row: HitRow) -> Literal["near_symbol", "own_symbol"] | None:
    """Return the feature of a chunk that is the caller's symbol or lies within it.

    If the path names the file of the definition, the caller knows it. It has the words of what it calls.
    """
    asked, scope = context.symbol or "", row.scope or ""
    names = _names(asked)
    if not names:
        return None
    if row.symbol and (row.symbol == asked or _is_same(names, _names(scope), _names(row.symbol))):
        here = PurePosixPath((context.path or "").strip("/"))
        return "own_symbol" if here == PurePosixPath(row.file_path) else "near_symbol"
    return None if {asked, names[-1]}.isdisjoint(scope.split("/")) else "near_symbol"


def _is_same(asked: Sequence[str], scope: Sequence[str], symbol: Sequence[str]) -> bool:
    """Return whether names end with a symbol, and their modules, files and classes before it fit its scope."""
    around, name = asked[: -len(symbol)], asked[-len(symbol) :]
    return name == symbol and all(map(eq, reversed(around), reversed(scope)))


@lru_cache(maxsize=MAX_CACHED_TERMS)
def _names(symbol: str) -> tuple[str, ...]:
    """Return the names in a qualified one: `pkg.Class.method(x)`, `a.py::test`, `(*T).Method`, `vector<int>::push`."""
    named = _ARGUMENTS.sub("", symbol).translate(_WITHOUT_BRACKETS)
    return tuple(filter(None, re.split(r"[./:#\\]+", named)))
