"""The text of a file, assembled from its chunks, and the excerpts that lines and pointers select."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.search.text import file_text
from api.search.text.file_text import joined, lines_span
from schemas.errors import NotFound
from worker.parse.data.json_pointer import span
from worker.state.search.snippets import TextRow


def piece(text: str, start: int, *, lead: str = "", trail: str = "") -> TextRow:
    """The row of a chunk, as the text query returns it."""
    return TextRow(text, lead, trail, start, start + len(text), 1, None)


def test_gaps_and_overlaps_are_joined_exactly() -> None:
    pieces = [piece("one\ntwo", 1, lead="\n"), piece("two\nthree", 5), piece("hree", 10, trail="\n\n")]
    assert joined(pieces) == "\none\ntwo\nthree\n\n"


def test_the_end_of_a_text_begins_with_what_is_before_its_first_chunk() -> None:
    assert joined([piece("two\nthree", 5, lead="\n"), piece("hree", 10, trail="\n")]) == "\ntwo\nthree\n"


@given(st.text("ab\n", min_size=1, max_size=40), st.data())
def test_any_pieces_that_cover_a_text_give_it_back(text: str, data: st.DataObject) -> None:
    spans = data.draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))), min_size=1, max_size=6))
    pieces, end = [], 0
    for start, stop in sorted((min(ends), max(ends)) for ends in spans):
        pieces.append(piece(text[start:stop], start, lead=text[end:start]))
        end = max(end, stop)
    pieces[-1] = pieces[-1]._replace(trail=text[end:])
    assert joined(pieces) == text


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(0, None, "a\nb\nc\n"), (1, 1, "b\n"), (1, None, "b\nc\n"), (0, 0, "a\n"), (2, 98, "c\n"), (3, 3, "")],
)
def test_lines_are_inclusive(first: int, last: int | None, expected: str) -> None:
    start, end = lines_span("a\nb\nc\n", first, last)
    assert "a\nb\nc\n"[start:end] == expected


def test_only_line_feeds_end_lines() -> None:
    text = "a\x0bb\x85c\u2028d\re\nf"
    start, end = lines_span(text, 1, 1)
    assert text[start:end] == "f"


JSON = """
 { "config" : {"auth": {"login": [1, {"a b": null}, "x"]}, "a/b~c": -1.5e3, "": true},
   "config2": [], "none": {}, "n\\u0000l": "]}", "two": 1, "two": 2 }
"""


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("", JSON.strip()),
        ("/config/auth", '"auth": {"login": [1, {"a b": null}, "x"]}'),
        ("/config/auth/login", '"login": [1, {"a b": null}, "x"]'),
        ("/config/auth/login/1", '{"a b": null}'),
        ("/config/auth/login/1/a b", '"a b": null'),
        ("/config/auth/login/2", '"x"'),
        ("/config/a~1b~0c", '"a/b~c": -1.5e3'),
        ("/config/", '"": true'),
        ("/config2", '"config2": []'),
        ("/n\\u0000l", '"n\\u0000l": "]}"'),
        ("/n\0l", '"n\\u0000l": "]}"'),
        ("/two", '"two": 2'),
    ],
)
def test_a_pointer_is_the_value_with_its_key(pointer: str, expected: str) -> None:
    start, end = span(JSON, pointer)
    assert JSON[start:end] == expected


@pytest.mark.parametrize(
    "pointer",
    [
        *("config", "/conf", "/config/auth/logi", "/config/auth/login/3", "/config/auth/login/01", "/config2/0"),
        *("/config/auth/login/-", "/none/x", "/none/", "/two/x", "/config/auth/login/2/x", "//", "/config/a/b~c"),
    ],
)
def test_a_pointer_to_nothing_is_not_found(pointer: str) -> None:
    with pytest.raises(NotFound, match="pointer"):
        span(JSON, pointer)


def test_a_scalar_has_no_members_and_long_numbers_are_passed_over() -> None:
    assert span(" 12 ", "") == (1, 3)
    with pytest.raises(NotFound):
        span("12", "/0")
    text = json.dumps({"long": 0, "b": [1]}).replace("0", "9" * 5000)
    start, end = span(text, "/b/0")
    assert text[start:end] == "1"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_every_value_is_found_at_its_pointer(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)

    def check(inner: Any, pointer: str, key: str | None) -> None:
        start, end = span(text, pointer)
        assert json.loads(text[start:end] if key is None else f"{{{text[start:end]}}}") == (
            inner if key is None else {key: inner}
        )
        named = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for name, below in named:
            part = str(name).replace("~", "~0").replace("/", "~1")
            check(below, f"{pointer}/{part}", name if isinstance(name, str) else None)

    check(value, "", None)


@given(
    st.text("ab\n\u4e2d", max_size=12),
    st.integers(0, 8),
    st.none() | st.integers(0, 8),
    st.sampled_from([1, 2, 3, 100]),
)
def test_lines_of_blocks_of_any_size_are_those_of_the_text(text: str, first: int, more: int | None, block: int) -> None:
    lines = text.removesuffix("\n").split("\n")
    last = None if more is None else first + more
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(file_text, "_BLOCK", block)
        start, end = lines_span(text, first, last)
    widths = [len(line) + 1 for line in lines]
    begin = sum(widths[:first])
    stop = begin + sum(widths[first : None if last is None else last + 1])
    assert text[start:end] == text[begin:stop]
    assert start == begin


def test_lines_are_found_without_a_list_of_all() -> None:
    text = "a\n" * 200_000
    tracemalloc.start()
    try:
        assert lines_span(text, 199_998, 199_998) == (399_996, 399_998)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 600_000
