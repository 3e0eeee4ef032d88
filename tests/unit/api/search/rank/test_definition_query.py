"""The names whose definition a query asks for, as people and agents write queries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest

from api.search.rank import definition_query
from api.search.rank.definition_query import names_in_query

ASKED = {
    # keywords of many languages
    "class Foo": ["Foo"],
    "class foo": ["foo"],
    "class Foo(Base):": ["Foo"],
    "class 帳簿": ["帳簿"],
    "`帳簿`": ["帳簿"],
    "public static class Foo extends Bar": ["Foo"],
    "def foo": ["foo"],
    "async def foo(self, bar)": ["foo"],
    "function foo": ["foo"],
    "export default async function load": ["load"],
    "struct entry": ["entry"],
    "type Entry struct": ["Entry"],
    "interface Store {": ["Store"],
    "enum class Color": ["Color"],
    "type Amount = number": ["Amount"],
    "pub fn clamp": ["clamp"],
    "func (l *Ledger) Add": ["Add"],
    "func Dump(l Ledger)": ["Dump"],
    "trait Total": ["Total"],
    "impl Total for Ledger": ["Total"],
    "module Money": ["Money"],
    "namespace money": ["money"],
    "method total": ["total"],
    "macro entry": ["entry"],
    "var count": ["count"],
    "const LIMIT": ["LIMIT"],
    "the Ledger class": ["Ledger"],
    "search function": ["search"],
    "how does the Ledger class count": ["Ledger"],
    # questions
    "where is Foo defined": ["Foo"],
    "Where is foo defined?": ["foo"],
    "where is the function clamp declared": ["clamp"],
    "where do we define limits?": ["limits"],
    "definition of checked": ["checked"],
    # shapes
    "Foo.bar": ["Foo.bar"],
    "what does Foo::bar return": ["Foo::bar"],
    "Ledger#add in ruby": ["Ledger#add"],
    "self.refresh_token is never called": ["refresh_token"],
    "how do I call foo()?": ["foo"],
    "what is `foo` for": ["foo"],
    "does `empty?` raise": ["empty?"],
    "why does parseHeader fail": ["parseHeader"],
    "who sets MAX_DEPTH and min_depth": ["MAX_DEPTH", "min_depth"],
    "HTTPServer and TokenStore, TokenStore again": ["HTTPServer", "TokenStore"],
    "override __init__": ["__init__"],
    "search": ["search"],
    "`search`": ["search"],
    "search()": ["search"],
    # messages
    "TypeError: parse_header takes no text": ["parse_header"],
    "class Foo: what is it for": ["Foo"],
    "def parse_header(text): return text": ["parse_header"],
}
PLAIN = [
    "authentication JWT token",
    "where are tokens refreshed?",
    "where is the entry point of the program",
    "class of service in networks",
    "a function that parses dates",
    "Which function is the fastest",
    "rust trait bounds and type inference",
    "database connection",
    "the file(s) in src/my_module/foo.py",
    "config.json or setup.py, e.g. README.md",
    "write to me@example.com, version 3.11",
    "a state-of-the-art snake-cased_thing",
    "setup.py",
    "ValueError: not a number",
    "requests.exceptions.ConnectionError: the host does not answer",
    "wo ist die Größe festgelegt",
    "谁是黑豹队的截锋领袖",
    "???",
    "",
]


@pytest.mark.parametrize("query", ASKED)
def test_the_names_that_a_query_asks_for_are_found(query: str) -> None:
    assert list(names_in_query(query)) == ASKED[query]


@pytest.mark.parametrize("query", PLAIN)
def test_plain_language_asks_for_no_name(query: str) -> None:
    assert names_in_query(query) == ()


def test_names_are_few_whatever_is_sent() -> None:
    assert len(names_in_query(" ".join(f"name_{n}" for n in range(1000)))) == 16


HOSTILE = [
    ("a", "$", " b"),
    ("", "A", " x"),
    ("definition of a", "$", " b"),
    ("where is a", "$", " b"),
    ("where is a", " ", "b"),
    ("`a", "$", " b"),
    ("a", ".a", " x"),
    ("a", "::a", "/ x"),
    ("a", "~", " b"),
    ("", "func (", "x"),
    ("", "where is the ", "x"),
    ("definition of a", "!", " b"),
    ("", " ", "x"),
    ("a:", " ", "b"),
]


def hostile(length: int, unique: Iterator[int]) -> list[str]:
    """Texts of about this many characters that no cache has seen."""
    return [f"{first}{part * (length // len(part))}{last}{next(unique)}" for first, part, last in HOSTILE]


def seconds(texts: list[str]) -> float:
    began = time.process_time()
    for text in texts:
        names_in_query(text)
    return time.process_time() - began


def test_time_is_linear_in_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition_query, "_MAX_CHARACTERS", 1_000_000)
    unique = count()
    short, long = (min(seconds(hostile(length, unique)) for _ in range(3)) for length in (5_000, 20_000))
    assert long < 10 * short + 0.05


def test_no_more_than_the_beginning_is_read() -> None:
    texts = [f"{text[:9_990]} {number}" for number, text in enumerate(hostile(10_000, count(1000)))][:8]
    assert seconds(texts) < 0.1
    assert names_in_query("why does parse_header fail " + "x" * 600) == ("parse_header",)
    assert names_in_query("word " * 99 + "parse_header parse_body") == ()
    assert names_in_query(" " * 600 + "search") == ("search",)
