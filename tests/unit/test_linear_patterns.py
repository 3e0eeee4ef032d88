"""Our own regular expressions, and the functions that read a caller's text, take time linear in it.

Each expression gets texts made from its own parts. What runs in the helper process, which has limits on time, is left
out. `PATTERN_SEED` makes other texts.
"""

from __future__ import annotations

import ast
import importlib
import os
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.routes.content import downloads, upload_names
from api.search.grep import fallback, translate, word_borders
from api.search.grep.pattern import compiled_pattern
from api.search.query import long_query
from api.search.rank import boosts, definition_query
from schemas.content import jsonc
from schemas.errors import FoldexError
from schemas.queries.grep import Grep
from tests.pumps import Pumps, grows_too_fast
from worker.formats.generated import _NOTICE
from worker.tokens import keywords, language_words, languages

ROOT = Path(__file__).parents[2]
METHODS = {"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"}
#: How those are used that a module hands on.
HANDED_ON = {"_FIRST_LINE_RUN": {"match"}, "_OTHER_LINES_RUN": {"match"}, "_DUMP": {"finditer"}}
SEED = os.environ.get("PATTERN_SEED") or "2026-11-30"
#: Characters of the longer text, and texts for each expression or reader.
SIZE = 16_000
TEXTS = 8


class Expression(NamedTuple):
    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    def looks(self) -> Iterator[Callable[[str], object]]:
        """The ways in which it is used."""
        if self.methods - {"match", "fullmatch"}:
            yield lambda text: all(self.pattern.finditer(self._as_sent(text)))
        for name in self.methods & {"match", "fullmatch"}:
            yield partial(self._matched, name)

    def _matched(self, method: str, text: str) -> object:
        return getattr(self.pattern, method)(self._as_sent(text))

    def _as_sent(self, text: str) -> str | bytes:
        return text.encode("latin-1", "replace") if isinstance(self.pattern.pattern, bytes) else text


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(path for top in ("api", "schemas", "worker") for path in (ROOT / top).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith("worker.parse") and not name.endswith("__main__"):
            yield name, ast.parse(path.read_text())


def patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, list | tuple | set | frozenset | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(each, depth + 1)


@cache
def expressions() -> list[Expression]:
    """All constants of modules, and those within functions."""
    found: dict[tuple[Any, int], tuple[str, set[str]]] = {}
    uses: dict[str, set[str]] = {name: set(methods) for name, methods in HANDED_ON.items()}
    for name, tree in modules():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Attribute) and node.attr in METHODS):
                continue
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            uses.setdefault(owner, set()).add(node.attr)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in {f"re.{method}" for method in METHODS}:
                with suppress(ValueError):  # no constant
                    pattern = re.compile(ast.literal_eval(call.args[0]))
                    method = ast.unparse(call.func).removeprefix("re.")
                    found[pattern.pattern, pattern.flags] = (f"{name}:{call.lineno}", {method})
        for variable, value in vars(importlib.import_module(name)).items():
            for pattern in patterns_in(value):
                place, methods = found.get((pattern.pattern, pattern.flags), (f"{name}.{variable}", set()))
                found[pattern.pattern, pattern.flags] = (place, methods | uses.get(variable, set()))
    return [
        Expression(place, re.compile(source, flags), frozenset(methods or METHODS))
        for (source, flags), (place, methods) in found.items()
    ]


def is_slow(expression: Expression, begin: str, fragment: str, end: str, size: int = SIZE) -> bool:
    def text(size: int) -> str:
        return begin + fragment * (size // len(fragment)) + end

    return any(grows_too_fast(look, text, size) for look in expression.looks())


def test_no_expression_takes_a_power_of_the_text() -> None:
    slow = []
    for expression in expressions():
        pumps = Pumps(expression.pattern, random.Random(f"{SEED} {expression.place}"))
        slow += [
            f"{expression.place}: {expression.pattern.pattern!r} over {text!r}"
            for text in [*pumps.texts(TEXTS), *pumps.runs()]
            if is_slow(expression, *text)
        ][:1]
    assert not slow, f"PATTERN_SEED={SEED}: {slow}"
    assert len(expressions()) > 90


@pytest.mark.parametrize(
    ("pattern", "methods"),
    [
        ("<!--.*?-->", {"sub"}),
        (r"(\w+)*x", {"match"}),
        (r"\s+$", {"search"}),
        ("(a|aa)+$", {"fullmatch"}),
        (r"\[\^?(?:\\.|[^\]\\])*\]", {"finditer"}),
        (r"\w+=.*;.*x", {"fullmatch"}),
    ],
)
def test_the_search_finds_slow_expressions(pattern: str, methods: set[str]) -> None:
    expression = Expression("here", re.compile(pattern), frozenset(methods))
    texts = Pumps(expression.pattern, random.Random(1)).texts(200)
    assert any(is_slow(expression, *text) for text in texts)


@pytest.mark.parametrize(
    ("pattern", "methods"),
    [
        (r"(?:const[ \t]+|,[ \t]*\n?[ \t]*)(\w+)[ \t]*=", {"finditer"}),
        (r"\bexports[ \t]*=[ \t]*(?:class[ \t]+(\w+)|function[ \t]*\*?[ \t]*(\w+)|([^\n;{]{1,200}))", {"finditer"}),
        (r"^export[ \t]+(?:(?:async[ \t]+)?(?:function[ \t]*\*?|class)[ \t]+(\w+)|(\w+);)", {"finditer"}),
        (r"a(?:b\w*[\w.]*)c", {"match"}),
    ],
)
def test_two_runs_side_by_side_are_always_found(pattern: str, methods: set[str]) -> None:
    expression = Expression("here", re.compile(pattern), frozenset(methods))
    for seed in range(3):
        # half the text takes a quarter of the time, which a busy machine has too
        texts = Pumps(expression.pattern, random.Random(seed)).runs()
        assert any(is_slow(expression, *text, SIZE // 2) for text in texts)


def grep(**options: Any) -> Callable[[str], object]:
    def compiled(text: str) -> None:
        with suppress(FoldexError):
            compiled_pattern(Grep(pattern=text[:10_000], **options))

    return compiled


READERS: dict[str, Callable[[str], object]] = {
    "names in a query": definition_query.names_in_query,
    "terms": boosts.terms,
    "phrases": boosts.phrases,
    "runs of words": boosts.word_runs,
    "share of names": boosts.name_share,
    "a symbol": boosts._symbol_parts,
    "a path": boosts._is_test,
    "parts of a long query": lambda text: long_query.split([text]),
    "words to grep": fallback.words_of,
    "borders of a pattern": word_borders.split_borders,
    "a pattern for RE2": translate.for_re2,
    "a pattern for ripgrep": partial(translate.for_ripgrep, word=True, multiline=False),
    "set operations": lambda text: suppressed(translate.refuse_operations, text),
    "a grep": grep(regex=True),
    "a grep of words": grep(regex=True, word=True, multiline=True),
    "a grep of text": grep(word=True),
    "code words": keywords.code_words,
    "phrase tokens": keywords.phrase_tokens,
    "code words of a query": lambda text: keywords.query_tokens(text, "code", keywords.IN_ENGLISH),
    "words of a query": lambda text: keywords.query_tokens(text, "text", keywords.IN_ENGLISH),
    "text words": lambda text: language_words.text_words(text, "english"),
    "pairs": language_words.unspaced_pairs,
    "language": languages.language_of,
    "json with comments": jsonc.plain,
    "json by hand": jsonc.is_by_hand,
    "an upload's name": lambda text: suppressed(upload_names.clean_path, text),
    "a range": lambda text: suppressed(lambda sent: downloads.part(sent, None, '"a"', 100), text),
    "an etag": lambda text: downloads.is_known('"a"', text),
    "a file name": downloads.disposition,
    "a notice": lambda text: _NOTICE.search(text.encode()),
}

FRAGMENTS = [
    *("a", "A", "0", " ", "\n", "\t", "\0", ".", ",", ";", ":", "::", "->", "#", "/", "\\", '"', "'", "`", "“", "”"),
    *("(", ")", "[", "[^", "]", "{", "}", "<", ">", "*", "+", "?", "|", "^", "$", "~", "@", "%", "=", "_", "-", "&&"),
    *("//", "/*", "*/", "[:", ":]", "[[:alpha:]]", r"\b", r"\w", r"\Q", r"\E", r"\pL", r"\x{41}", "(?i)", "(?i-s:"),
    *(
        "a.b",
        "aB",
        "a_b",
        "def ",
        "class A",
        "func (",
        "where is ",
        "error: ",
        ".NET",
        "C++",
        "é",
        "ß",
        "日",
        "ก",
        "e\u0301",
    ),
    *("{1,2}", "a|", "()", '{"a":', "[0,", "bytes=", "0-", 'W/"', "..", "../", "%2F", "\U0001f600", "\u200d", "true"),
]


def suppressed(look: Callable[[str], object], text: str) -> None:
    with suppress(FoldexError, ValueError):
        look(text)


@pytest.mark.parametrize("name", READERS)
def test_no_reader_of_a_callers_text_takes_a_power_of_it(name: str) -> None:
    chance = random.Random(f"{SEED} {name}")
    look = READERS[name]
    # loads what the first call needs, such as a model of languages
    look("Dies ist ein Text in einer Sprache, die ein Modell nennt.\n" * 20)
    for number in range(TEXTS):
        begin, fragment, end = ("".join(chance.choices(FRAGMENTS, k=chance.choice([0, 1, 2]))) for _ in range(3))
        repeated = fragment or FRAGMENTS[number]

        def text(size: int, begin: str = begin, repeated: str = repeated, end: str = end) -> str:
            return begin + repeated * (size // len(repeated)) + end

        assert not grows_too_fast(look, text, 8_000), f"PATTERN_SEED={SEED}: {begin!r} + {repeated!r} * n + {end!r}"
