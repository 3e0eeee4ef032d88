"""With `packed`, neighbouring pieces share a chunk up to the size, under what is around all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.content.document import Chunk
from schemas.content.source import ChunkSettings
from tests.unit.worker.chunk.chunking import Characters, cut
from worker.chunk.measure import ChunkSpan, measure
from worker.chunk.packed import pack
from worker.tokens.tokenizers import cl100k

BODY = "".join(f"        value{n} = self.compute({n}, {n * 7919})\n" for n in range(6))


def method(name: str) -> str:
    return f"    def {name}(self):\n{BODY}\n"


def packed(text: str, name: str, size: int = 512) -> list[Chunk]:
    return cut(text, name, settings=ChunkSettings(size=size, overlap=0, granularity="packed"))


def whole(text: str, name: str, size: int = 512) -> list[Chunk]:
    return cut(text, name, settings=ChunkSettings(size=size, overlap=0))


def test_functions_that_fit_together_share_a_chunk() -> None:
    text = f"import os\n\n\n{method('load')}{method('save')}".replace("    def", "def")
    assert len(whole(text, "a.py")) > 1
    (only,) = packed(text, "a.py")
    assert only.text == text.rstrip()
    assert (only.context, only.symbol, only.node_type, only.scope) == ("", None, None, None)


def test_methods_of_one_class_keep_its_header_and_name() -> None:
    text = "class Store:\n" + "".join(method(f"work{n}") for n in range(30))
    chunks = packed(text, "a.py")
    assert 1 < len(chunks) < len(whole(text, "a.py"))
    for chunk in chunks[1:]:
        assert chunk.context == "class Store:"
        assert chunk.symbol == "Store" or chunk.text.count("def ") == 1


def test_a_definition_beside_text_without_a_name_keeps_its_name() -> None:
    text = "import os\nimport sys\n" * 10 + "\n\n" + method("load").replace("    def", "def")
    (only,) = packed(text, "a.py")
    assert (only.symbol, only.node_type) == ("load", "function")


def test_sections_keep_the_headings_above_all_of_them() -> None:
    words = "several words that fill a line\n" * 6
    text = "# Top\n\n" + "".join(f"## Part {n}\n\n{words}\n" for n in range(30))
    chunks = packed(text, "a.md")
    assert 1 < len(chunks) < len(whole(text, "a.md")) / 2
    assert {chunk.context for chunk in chunks[1:]} == {"Top"}
    assert [chunk.title for chunk in chunks[1:]] == [
        next(line[3:] for line in chunk.text.splitlines() if line.startswith("## ")) for chunk in chunks[1:]
    ]


def test_values_of_json_keep_the_pointer_to_what_holds_them() -> None:
    record = {"words": "several words that fill a value " * 2, "more": {"a": 1, "b": [1, 2, 3]}}
    data = {"one": {f"k{n}": record for n in range(3)}, "two": {f"k{n}": record for n in range(40)}}
    chunks = packed(json.dumps(data, indent=1), "a.json")
    assert 1 < len(chunks) < len(whole(json.dumps(data, indent=1), "a.json"))
    pointers = {chunk.json_pointer for chunk in chunks}
    assert "/two" in pointers
    assert all(pointer in {"", "/one", "/two"} or pointer.count("/") == 2 for pointer in map(str, pointers))


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_text_and_tables_are_cut_alike(name: str) -> None:
    text = "id,words\n" + "".join(f"{n},several words that fill a row\n" for n in range(400))
    assert packed(text, name) == whole(text, name)


def pieces_of(lengths: list[int]) -> tuple[str, list[ChunkSpan]]:
    words, pieces = "", []
    for length in lengths:
        pieces.append(ChunkSpan(len(words), len(words) + 2 * length))
        words += " x" * length
    return words, pieces


@pytest.mark.parametrize(("tokens", "expected"), [(58, 1), (65, 2)])
def test_pieces_are_joined_up_to_the_limit(tokens: int, expected: int) -> None:
    text, pieces = pieces_of([30, tokens - 30])
    settings = ChunkSettings(size=64, overlap=0)
    limits = measure(text, settings, cl100k(), 8192, context_tokens=0)
    assert len(list(pack(limits, pieces))) == expected


def test_pieces_that_overlap_stay_apart() -> None:
    text, (one, other) = pieces_of([10, 10])
    settings = ChunkSettings(size=64, overlap=8)
    limits = measure(text, settings, cl100k(), 8192, context_tokens=0)
    overlapping = [one, other._replace(start=one.end - 4)]
    assert list(pack(limits, overlapping)) == overlapping
    assert len(list(pack(limits, [one, other]))) == 1


def joined(*pieces: ChunkSpan, size: int = 64) -> list[ChunkSpan]:
    """Pieces of a text of which each character is a token."""
    text = "".join(chr(ord("a") + number % 26) * 10 for number in range(pieces[-1].end // 10))
    settings = ChunkSettings(size=size, overlap=0)
    return list(pack(measure(text, settings, Characters(), 8192, context_tokens=0), pieces))


def row(*fields: dict[str, Any]) -> list[ChunkSpan]:
    """Neighbours of ten characters each."""
    return [ChunkSpan(10 * number, 10 * number + 10, **each) for number, each in enumerate(fields)]


def test_pieces_are_parted_where_the_outer_ones_begin() -> None:
    outer: dict[str, Any] = {"above": ()}
    inner: dict[str, Any] = {"above": ("a",)}
    found = joined(*row(*[outer, inner, inner] * 20), size=40)
    assert len(found) > 10
    assert all(piece.start % 30 == 0 for piece in found)


@pytest.mark.parametrize("deepest", [4, 7, 8, 9, 40])
def test_borders_below_some_depth_rank_alike(deepest: int) -> None:
    def at(*depths: int) -> list[tuple[int, int]]:
        pieces = row(*({"above": tuple(map(str, range(depth)))} for depth in depths))
        return [(piece.start, piece.end) for piece in joined(*pieces, size=40)]

    # those of the third depth, two in three, rank below the others
    assert at(*[2, 3, 3] * 20) == at(*[2, 3, deepest] * 20) == at(*[2, deepest, deepest] * 20)
    assert at(*[3] * 60) == at(*[deepest, 3] * 30) != at(*[2, 3, 3] * 20)


def test_what_is_joined_is_named_after_its_only_major_definition() -> None:
    constant = {"symbol": "LIMIT", "node_type": "constant", "scope": "first"}
    function = {"symbol": "close", "node_type": "function", "scope": "Harbour"}
    (found,) = joined(*row(constant, function, {}))
    assert (found.symbol, found.node_type, found.scope) == ("close", "function", "Harbour")
    (found,) = joined(*row(function, {**function, "symbol": "open"}))
    assert (found.symbol, found.node_type, found.scope) == ("Harbour", None, None)
    # the piece of the class itself tells what it is
    inner = {"symbol": "close", "node_type": "method", "scope": "port/Harbour"}
    outer = {"symbol": "Harbour", "node_type": "class", "scope": "port"}
    (found,) = joined(*row(inner, {**inner, "symbol": "open"}, outer))
    assert (found.symbol, found.node_type, found.scope) == ("Harbour", "class", "port")


def test_joined_members_of_json_have_the_place_that_holds_them_all() -> None:
    first = {"above": ("a", "b"), "pointer": "/a/b/0", "node_type": "string", "scope": "a/b"}
    other = {"above": ("a", "c"), "pointer": "/a/c", "node_type": "number", "scope": "a/c"}
    (found,) = joined(*row(first, other))
    assert (found.pointer, found.above, found.scope, found.node_type) == ("/a", ("a",), "a", None)
    (found,) = joined(*row(first, {**other, "above": (), "pointer": "/d"}))
    assert (found.pointer, found.above, found.scope) == ("", (), None)


def test_pieces_that_touch_are_joined_and_those_that_overlap_are_not() -> None:
    assert joined(ChunkSpan(0, 10), ChunkSpan(10, 20)) == [ChunkSpan(0, 20)]
    assert joined(ChunkSpan(0, 10), ChunkSpan(9, 20)) == [ChunkSpan(0, 10), ChunkSpan(9, 20)]
    assert joined(ChunkSpan(10, 20), ChunkSpan(0, 10)) == [ChunkSpan(0, 20)]
