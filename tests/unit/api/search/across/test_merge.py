"""Merging the rankings of several tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from uuid import UUID, uuid4, uuid5

import pytest

from api.search.across.merge import ToolHits, merged
from api.search.grep.fallback import hit_of
from api.search.grep.scope import SearchableText
from schemas.content.source import EmbedderProfile

FIRST, SECOND = uuid4(), uuid4()
FILES = uuid4()
MODEL = EmbedderProfile(model="one", dimensions=2)


def part(tool_id: UUID, *found: tuple[str, int, float]) -> ToolHits:
    """Hits of (file, first byte, score), each ten bytes long."""
    files = [uuid5(FILES, name) for name, _, _ in found]
    texts = [SearchableText(uuid4(), name, name, f"/{name}", b"x" * 100) for name, _, _ in found]
    hits = [hit_of(text, start, start + 10, start, score) for text, (_, start, score) in zip(texts, found, strict=True)]
    return ToolHits(tool_id, hits, files)


def shown(parts: Sequence[ToolHits], top_k: int = 10, *, by_file: bool = False) -> list[tuple[str, int, UUID | None]]:
    hits = merged(parts, top_k, by_file=by_file)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 < hit.score <= 1 for hit in hits)
    return [(hit.file_path, hit.start_char, hit.tool_id) for hit in hits]


def test_equal_ranks_go_by_the_tools_own_scores() -> None:
    parts = [part(FIRST, ("a", 0, 0.5), ("b", 0, 0.4)), part(SECOND, ("c", 0, 0.9), ("d", 0, 0.1))]
    expected = [("c", 0, SECOND), ("a", 0, FIRST), ("b", 0, FIRST), ("d", 0, SECOND)]
    assert shown(parts) == shown(parts[::-1]) == expected
    assert shown(parts, 2) == expected[:2]


def test_a_place_found_twice_rises_and_is_told_by_who_ranked_it_best() -> None:
    parts = [part(FIRST, ("a", 0, 0.9), ("b", 0, 0.8)), part(SECOND, ("c", 0, 0.9), ("d", 0, 0.9), ("b", 0, 0.9))]
    assert shown(parts)[0] == ("b", 0, FIRST)
    assert len(shown(parts)) == 4


def test_other_places_of_a_file_are_one_hit_by_file_only() -> None:
    parts = [part(FIRST, ("a", 0, 0.9)), part(SECOND, ("a", 20, 0.95))]
    assert shown(parts) == [("a", 20, SECOND), ("a", 0, FIRST)]
    assert shown(parts, by_file=True) == [("a", 20, SECOND)]


def changed(of: ToolHits, **fields: object) -> ToolHits:
    """A part whose hits have other values."""
    return replace(of, hits=[hit.model_copy(update=fields) for hit in of.hits])


def test_what_is_equal_in_all_else_comes_by_path_and_then_by_the_order_of_the_tools() -> None:
    parts = [part(tool, (name, 0, 0.5)) for tool, name in ((FIRST, "a"), (SECOND, "b"), (FIRST, "c"))]
    for number, each in zip((2, 3, 1), parts, strict=True):
        each.hits[0].chunk_id = UUID(int=number)
    for order in permutations(parts):
        assert [name for name, *_ in shown(order)] == ["a", "b", "c"]
    # two folders have a file of one name each
    copies = [part(tool, ("a", 0, 0.5)) for tool in (FIRST, SECOND)]
    copies = [replace(each, files=[uuid5(FILES, str(number))]) for number, each in enumerate(copies)]
    for these in (copies, copies[::-1]):
        assert [tool for *_, tool in shown(these)] == [each.tool_id for each in these]


@pytest.mark.parametrize("fields", [{"level": 1}, {"end_char": 11}])
def test_a_summary_and_a_longer_text_are_other_places(fields: dict[str, object]) -> None:
    inner, outer = part(FIRST, ("a", 0, 0.9)), part(SECOND, ("a", 0, 0.8))
    assert len(shown([inner, outer])) == 1
    assert len(shown([inner, changed(outer, **fields)])) == 2
    assert len(shown([inner, changed(outer, **fields)], by_file=True)) == 1


def test_of_a_place_that_two_tools_rank_alike_the_better_score_is_shown() -> None:
    parts = [part(FIRST, ("a", 0, 0.4)), part(SECOND, ("a", 0, 0.6))]
    assert shown(parts) == shown(parts[::-1]) == [("a", 0, SECOND)]


def test_nothing_found_is_no_hits() -> None:
    assert merged([], 5, by_file=False) == merged([part(FIRST)], 5, by_file=False) == []


def near(tool_id: UUID, model: EmbedderProfile, *found: tuple[str, float | None]) -> ToolHits:
    """Hits of (file, distance) that a tool of that model ranks in this order."""
    plain = part(tool_id, *((name, 0, 0.9 - rank / 10) for rank, (name, _) in enumerate(found)))
    hits = [hit.model_copy(update={"distance": d}) for hit, (_, d) in zip(plain.hits, found, strict=True)]
    return ToolHits(tool_id, hits, plain.files, model)


def test_tools_with_one_model_merge_by_distance_and_keep_their_order() -> None:
    far = near(FIRST, MODEL, ("a", 0.8), ("b", 0.9))
    close = near(SECOND, MODEL, ("c", 0.5), ("d", None), ("e", 0.3), ("f", 0.85), ("g", None))
    assert [name for name, *_ in shown([far, close])] == ["c", "d", "e", "a", "f", "b", "g"]


def test_a_tool_that_only_words_find_yet_is_not_behind_all_others() -> None:
    ready = near(FIRST, MODEL, *((f"r{number}", 0.1 + number / 10) for number in range(5)))
    words = near(SECOND, MODEL, ("w0", None), ("w1", None))
    assert [name for name, *_ in shown([ready, words])][:4] == ["r0", "w0", "r1", "w1"]
    both = [near(tool, MODEL, (f"{name}0", None), (f"{name}1", None)) for tool, name in ((FIRST, "a"), (SECOND, "b"))]
    assert [name for name, *_ in shown(both)] == ["a0", "b0", "a1", "b1"]


def test_distances_of_several_models_do_not_compare() -> None:
    far = near(FIRST, MODEL, ("a", 0.8), ("b", 0.9))
    other = near(SECOND, MODEL.model_copy(update={"model": "other"}), ("c", 0.1), ("d", 0.2))
    names = [name for name, *_ in shown([far, other])]
    assert (set(names[:2]), set(names[2:])) == ({"a", "c"}, {"b", "d"})


def test_a_place_that_two_tools_with_one_model_find_counts_once() -> None:
    parts = [near(FIRST, MODEL, ("a", 0.1), ("b", 0.2)), near(SECOND, MODEL, ("b", 0.2), ("c", 0.3))]
    assert [name for name, *_ in shown(parts)] == ["a", "b", "c"]
    assert [hit.score for hit in merged(parts, 1, by_file=False)] == [1.0]


def test_of_a_place_that_two_tools_rank_and_score_alike_the_first_is_shown() -> None:
    parts = [part(FIRST, ("a", 0, 0.5)), part(SECOND, ("a", 0, 0.5))]
    assert shown(parts) == [("a", 0, FIRST)]
    assert shown(parts[::-1]) == [("a", 0, SECOND)]


def test_scores_tell_hits_far_down_apart() -> None:
    hits = merged([part(FIRST, *((str(number), 0, 0.5) for number in range(200)))], 200, by_file=False)
    assert len({hit.score for hit in hits}) == 200
