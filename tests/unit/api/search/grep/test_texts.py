"""Texts that are searched: narrowed to a part, and weighed without keeping them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.search.grep import scope
from api.search.grep.fallback import any_of, best_lines
from api.search.grep.lines import lines_before
from api.search.grep.pattern import compiled_pattern
from api.search.grep.scope import SearchableText, narrowed

SECRETS = '{"é": "token",\n"public": {"a": "token one"}, "b": "token",\n"c": "token"}'


def test_a_narrowed_document_keeps_its_places_and_nothing_else() -> None:
    start, end = SECRETS.index('"public'), SECRETS.index(', "b"')
    data, span = narrowed(SECRETS, start, end)
    assert data.decode() == f"{' ' * 14}\n{SECRETS[start:end]}"
    text = SearchableText(UUID(int=1), "1", "a.json", "/a.json", data, span)
    found = best_lines([text], ["token"], compiled_pattern(any_of(["token"])), lambda: None, 5)
    assert [(hit.chunk_text, hit.start_line, hit.start_char) for hit in found.hits] == [(SECRETS[start:end], 2, start)]
    assert lines_before(data, span.start, 5, span.start) == []


def test_a_narrowed_part_of_one_line_is_shown_alone() -> None:
    text = SECRETS.replace("\n", "")
    start, end = text.index('"public'), text.index(', "b"')
    data, span = narrowed(text, start, end)
    assert data.decode() == " " * start + text[start:end]
    assert span == range(start, end)


def test_files_that_are_weighed_are_not_kept() -> None:
    def texts() -> Iterator[SearchableText]:
        for number in range(100):
            yield SearchableText(
                UUID(int=number), "1", f"{number}.txt", f"/{number}.txt", b"a token\n" + b"words\n" * 20_000
            )

    tracemalloc.start()
    found = best_lines(texts(), ["token"], compiled_pattern(any_of(["token"])), lambda: None, 100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.hits) == 100
    assert peak < 3_000_000


@given(st.text("ab\n\u4e2d", max_size=12), st.integers(0, 12), st.sampled_from([1, 2, 100]))
def test_what_is_before_a_part_is_blank(text: str, start: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scope, "_BLOCK", block)
        data, part = scope.narrowed(text, min(start, len(text)), len(text))
    assert data[part.start :].decode() == text[start:]
    assert [len(line) for line in data.split(b"\n")][: text[:start].count("\n")] == [
        len(line) for line in text[:start].split("\n")
    ][:-1]
    assert set(data[: part.start]) <= set(b" \n")
