"""From rankings to candidates: scores that mean something, and their parts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from api.search.chunks.candidates import (
    BOOSTED_CHUNKS,
    FINDER_RANKS,
    UNKNOWN,
    Candidate,
    Fusion,
    boost,
    confidence_of,
    fuse,
    joined,
    rank_candidates,
    wanted_ids,
)
from api.search.chunks.legs import MIN_LEGIBILITY, Kind, Ranking
from api.search.rank.confidence import AGREEING, USUAL_AGREEMENT, Evidence, HitTexts, confidence
from api.search.rank.files import CROWDED_HITS
from api.search.rank.weights import RANKING_WEIGHTS, WEIGHTS
from schemas.queries.search import Context, Query
from tests.hit_rows import hit_row
from worker.state.search.found_chunks import HitRow
from worker.vectors import RankedRow

KINDS: tuple[Kind, ...] = ("vector", "text", "code")
RANKS = {"vector_rank", "text_rank", "code_rank"}


def ranked(request: Query, rows: dict[str, HitRow], **found: list[tuple[str, float]]) -> list[Candidate]:
    kinds: dict[str, Kind] = {"vector": "vector", "text": "text", "code": "code"}
    rankings = [Ranking(request.texts[0], kinds[kind], [RankedRow(*one) for one in of]) for kind, of in found.items()]
    fusion = fuse(request, WEIGHTS, rankings, ())
    assert set(wanted_ids(request, fusion, {})) == set(rows)
    return list(rank_candidates(request, WEIGHTS, fusion, rows).candidates)


def test_parts_add_up_to_each_score() -> None:
    rows = {
        "a": hit_row("a", "fill the water pump", symbol="pump", file_path="pump.py"),
        "b": hit_row("b", "a test of water", file_path="tests/b.py"),
        "c": hit_row("c", "the water is cold", file_type="markdown", file_id=UUID(int=2)),
        "d": hit_row("d", "fill the water pump", file_id=UUID(int=3)),
    }
    request = Query(query="how does the water pump fill", explain=True)
    legs: dict[str, list[tuple[str, float]]] = {
        "vector": [("a", 0.3), ("b", 0.4), ("d", 0.5)],
        "code": [("b", 7.0), ("a", 6.0), ("c", 1.0), ("d", 0.5)],
    }
    found = ranked(request, rows, **legs)
    plain = ranked(request.model_copy(update={"explain": False}), rows, **legs)
    assert [(each.id, each.score) for each in plain] == [(each.id, each.score) for each in found]
    names = {name for each in found for name in each.parts}
    assert names >= {"found", "symbol", "path", "test", "coherence", "repeat"}
    for each in found:
        assert sum(each.parts.values()) == pytest.approx(each.score)
        assert set(each.ranks) <= RANKS
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


@pytest.mark.parametrize(("defining", "supports"), [((), True), (("b",), False)])
def test_a_file_with_many_uses_does_not_gain_over_the_definition(defining: tuple[str, ...], supports: bool) -> None:
    rows = {name: hit_row(name, f"{name} uses TokenBucket", file_id=UUID(int=1 + (name == "b"))) for name in "abc"}
    request = Query(query="TokenBucket", explain=True)
    found = [Ranking("TokenBucket", "code", [RankedRow(name, 9.0) for name in "acb"])]
    fusion = fuse(request, WEIGHTS, found, defining)
    hits = rank_candidates(request, WEIGHTS, fusion, rows).candidates
    assert any("coherence" in each.parts for each in hits) is supports


@pytest.mark.parametrize(("query", "supports"), [("token bucket", True), ('a "token bucket"', False)])
def test_a_file_does_not_gain_by_its_other_chunks_where_a_query_quotes_words(query: str, supports: bool) -> None:
    rows = {name: hit_row(name, f"{name} is a token bucket", file_id=UUID(int=1 + (name == "b"))) for name in "abc"}
    request = Query(query=query, explain=True)
    fusion = fuse(request, WEIGHTS, [Ranking(query, "text", [RankedRow(name, 9.0) for name in "acb"])], ())
    hits = rank_candidates(request, WEIGHTS, fusion, rows).candidates
    assert any("coherence" in each.parts for each in hits) is supports


@pytest.mark.parametrize(("parts", "best"), [(1, "short0"), (9, "long0")])
def test_among_files_of_one_chunk_a_longer_file_does_not_gain(parts: int, best: str) -> None:
    rows = {f"long{n}": hit_row(f"long{n}", f"{n} fills", file_id=UUID(int=1), total_chunks=2) for n in range(2)}
    for number in range(6):
        of_file = {"file_id": UUID(int=2 + number), "total_chunks": parts}
        rows[f"short{number}"] = hit_row(f"short{number}", f"{number} drains", **of_file)
    found = [("short0", 9.0), ("long0", 8.8), ("long1", 8.6), *((f"short{number}", 2.0) for number in range(1, 6))]
    assert ranked(Query(query="water"), rows, code=found)[0].id == best


def test_hits_that_hardly_differ_have_scores_that_hardly_differ() -> None:
    rows = {name: hit_row(name, f"{name} is some water", file_id=UUID(int=n)) for n, name in enumerate(("xa", "xb"))}
    first, second = ranked(Query(query="water"), rows, vector=[("xa", 0.500), ("xb", 0.501)])
    assert 0.9 * first.score < second.score < first.score


def test_a_search_without_an_answer_has_low_scores() -> None:
    rows = {"a": hit_row("a", "sends a request over HTTP")}
    found = [("a", 0.95)]
    (off_topic,) = ranked(Query(query="banana smoothie recipe"), rows, vector=found, text=[("a", 0.5)])
    (asked,) = ranked(Query(query="send a request"), rows, vector=[("a", 0.4)], text=[("a", 9.0)])
    assert off_topic.score < 0.1
    assert asked.score > 0.9


@pytest.mark.parametrize(("file_type", "best"), [("code", "near"), ("markdown", "worded")])
def test_words_count_more_in_prose_than_in_code(file_type: str, best: str) -> None:
    files = {"near": 1, "worded": 2}
    rows = {name: hit_row(name, name, file_type=file_type, file_id=UUID(int=n)) for name, n in files.items()}
    found = ranked(Query(query="how is it"), rows, vector=[("near", 0.3), ("worded", 0.6)], text=[("worded", 9.0)])
    assert found[0].id == best


NEXT = ["c2", "c3", "c4", "c5"]


@pytest.mark.parametrize(
    ("best", "near", "worded"),
    [
        # each leg has another first result; the one far ahead of its next ones is right
        ("near", [("near", 0.2), *((name, 0.6) for name in NEXT), ("worded", 0.62)], [("worded", 9.0), (NEXT, 8.6)]),
        ("worded", [("near", 0.3), *((name, 0.37) for name in NEXT)], [("worded", 9.0), (NEXT, 3.0), (["near"], 2.9)]),
    ],
)
def test_in_prose_a_leg_that_guesses_yields_to_one_that_is_sure(
    best: str, near: list[tuple[str, float]], worded: list[tuple[Any, float]]
) -> None:
    names = ["near", "worded", *NEXT]
    rows = {name: hit_row(name, name, file_type="markdown", file_id=UUID(int=n + 1)) for n, name in enumerate(names)}
    text = [(name, score) for of, score in worded for name in ([of] if isinstance(of, str) else of)]
    assert ranked(Query(query="how is it"), rows, vector=near, text=text)[0].id == best


def ranking(query: str, kind: Kind, *found: tuple[str, float]) -> Ranking:
    return Ranking(query, kind, [RankedRow(*one) for one in found])


@pytest.mark.parametrize("file_type", ["code", "markdown"])
@pytest.mark.parametrize(("legibility", "best"), [(1.0, "near"), (MIN_LEGIBILITY, "worded")])
def test_a_leg_that_cannot_read_a_query_does_not_outvote_words(file_type: str, legibility: float, best: str) -> None:
    names = ["near", "worded", *NEXT]
    rows = {name: hit_row(name, name, file_type=file_type, file_id=UUID(int=n + 1)) for n, name in enumerate(names)}
    request, near = Query(query="how is it"), [("near", 0.1), *((name, 0.6) for name in NEXT)]
    vector = replace(ranking("how is it", "vector", *near), legibility=legibility)
    text = ranking("how is it", "text", ("worded", 9.0), *((name, 3.0) for name in NEXT))
    hits = rank_candidates(request, WEIGHTS, fuse(request, WEIGHTS, [vector, text], ()), rows).candidates
    assert hits[0].id == best
    # where words find nothing, it alone answers
    alone = rank_candidates(request, WEIGHTS, fuse(request, WEIGHTS, [vector], ()), rows).candidates
    assert alone[0].id == "near"


def test_a_model_whose_cosines_are_all_high_ranks_as_another() -> None:
    names = ["near", "worded", *NEXT]
    rows = {name: hit_row(name, name, file_type="markdown", file_id=UUID(int=n + 1)) for n, name in enumerate(names)}
    request, unrelated = Query(query="how is it"), 0.75
    near = [("near", 0.3), *((name, 0.7) for name in NEXT)]
    text = ranking("how is it", "text", ("worded", 9.0), *((name, 3.0) for name in NEXT))
    usual = ranking("how is it", "vector", *near)
    narrow = ranking("how is it", "vector", *((name, (1 - unrelated) * distance) for name, distance in near))
    same, guessing, expected = (
        rank_candidates(request, WEIGHTS, fuse(request, WEIGHTS, [vector, text], ()), rows)
        for vector in (replace(narrow, unrelated=unrelated), narrow, usual)
    )
    assert [each.id for each in same.candidates] == [each.id for each in expected.candidates]
    assert (same.candidates[0].id, guessing.candidates[0].id) == ("near", "worded")
    assert [*(same.confidence or ())] == pytest.approx([*(expected.confidence or ())])


def test_a_query_whose_words_nothing_has_does_not_outvote_another() -> None:
    request = Query(queries=["zyzzyva quokka", "fill it"])
    unknown = [ranking("zyzzyva quokka", "vector", ("near", 0.9)), ranking("zyzzyva quokka", "text")]
    known = [ranking("fill it", "vector", ("worded", 0.4)), ranking("fill it", "text", ("worded", 9.0))]
    scores = fuse(request, WEIGHTS, [*unknown, *known], ()).scores
    assert scores["near"] < 0.3 * scores["worded"]


def candidates(count: int, **last: Any) -> list[Candidate]:
    """So many chunks of as many files, best first. `last` are fields of the last one's row."""
    rows = [hit_row(f"c{number:03}", f"text {number}", file_id=UUID(int=number + 1)) for number in range(count)]
    rows[-1] = rows[-1]._replace(**last)
    return [Candidate(each.chunk_id, each, 0.5 - number / 1000, None, {}, [], {}) for number, each in enumerate(rows)]


@pytest.mark.parametrize(("top_k", "count"), [(10, BOOSTED_CHUNKS), (50, 100)])
def test_rows_are_wanted_of_the_best_and_of_those_that_define(top_k: int, count: int) -> None:
    ids = [f"{number:03}" for number in range(300)]
    fusion = Fusion([], {id_: 1 - rank / 1000 for rank, id_ in enumerate(ids)}, {"z", "y"})
    assert wanted_ids(Query(query="x", top_k=top_k), fusion, {}) == [*ids[:count], "y", "z"]


def test_features_count_behind_the_first_chunks_where_one_defines_or_files_are_grouped() -> None:
    found = candidates(BOOSTED_CHUNKS + 1, symbol="TokenBucket")
    plain, grouped = Query(query="TokenBucket"), Query(query="TokenBucket", group_by_file=True)
    assert boost(plain, RANKING_WEIGHTS, found[1:], ())[0].id == found[-1].id
    assert boost(plain, RANKING_WEIGHTS, found, ())[-1].id == found[-1].id
    assert boost(plain, RANKING_WEIGHTS, found, {found[-1].id})[0].id == found[-1].id
    assert boost(grouped, RANKING_WEIGHTS, found, ())[0].id == found[-1].id


def test_chunks_whose_scores_become_equal_stand_in_the_order_of_their_places() -> None:
    found = [each._replace(score=0.5) for each in candidates(5)]
    for order in (found, found[::-1]):
        ordered = boost(Query(query="water"), RANKING_WEIGHTS, order, ())
        assert [each.id for each in ordered] == [each.id for each in found]


def test_repetitions_in_a_file_come_last_with_the_lowest_score() -> None:
    *same, last = candidates(3)
    copies = [each.row._replace(chunk_text="the same words", file_id=UUID(int=1)) for each in same]
    found = [*(each._replace(row=row) for each, row in zip(same, copies, strict=True)), last]
    ordered = boost(Query(query="water"), RANKING_WEIGHTS, found, ())
    assert [each.id for each in ordered] == ["c000", "c002", "c001"]
    assert ordered[2].score <= ordered[1].score < ordered[0].score


def test_twins_in_other_files_keep_their_places_and_name_each_other() -> None:
    *same, last = candidates(3)
    found = [*(each._replace(row=each.row._replace(chunk_text="the same words")) for each in same), last]
    ordered = boost(Query(query="water"), RANKING_WEIGHTS, found, ())
    assert [(each.id, each.also_in) for each in ordered] == [
        ("c000", ["c001.py"]),
        ("c001", ["c000.py"]),
        ("c002", ()),
    ]


def test_behind_the_first_hits_further_chunks_of_a_file_come_after_others() -> None:
    found = candidates(CROWDED_HITS + 3)
    *of_one_file, other = found
    same_file = [each._replace(row=each.row._replace(file_id=UUID(int=1))) for each in of_one_file]
    # so that the other one is just behind the chunks of the file
    other = other._replace(score=0.9 * (1 + RANKING_WEIGHTS["repeat"]) * same_file[-1].score)
    ordered = boost(Query(query="water", explain=True), RANKING_WEIGHTS, [*same_file, other], ())
    assert [each.id for each in ordered].index(other.id) == CROWDED_HITS


def test_the_callers_file_comes_first_and_in_it_what_the_caller_does_not_work_on() -> None:
    rows = {
        name: hit_row(name, "fill it", file_path=path, symbol=name, file_id=UUID(int=number))
        for number, (name, path) in enumerate([("close", "a.py"), ("fill", "b.py"), ("open", "b.py")])
    }
    legs = {"code": [("close", 1.0), ("fill", 1.0), ("open", 1.0)]}
    order = {
        symbol: [each.id for each in ranked(Query(query="it", context=context), rows, **legs)]
        for symbol, context in {
            "none": Context(),
            "": Context(path="b.py"),
            "fill": Context(path="b.py", symbol="fill"),
        }.items()
    }
    assert order == {
        "none": ["close", "fill", "open"],
        "": ["fill", "open", "close"],
        "fill": ["open", "fill", "close"],
    }


def test_in_mode_vector_keywords_rank_nothing() -> None:
    legs = [ranking("q", "vector", ("a", 0.3), ("b", 0.4)), ranking("q", "text", ("c", 9.0), ("b", 8.0))]
    fusion = fuse(Query(query="q", mode="vector"), WEIGHTS, legs, ())
    assert fusion.rankings == legs[:1]
    assert fusion.scores == {"a": pytest.approx(0.7), "b": pytest.approx(0.6)}


@pytest.mark.parametrize("distances", [(0.2, 0.9), (0.9, 0.2)])
def test_the_distance_of_a_hit_is_that_of_its_nearest_query(distances: tuple[float, float]) -> None:
    request = Query(queries=["one", "two"])
    legs = [ranking(query, "vector", ("a", value)) for query, value in zip(request.texts, distances, strict=True)]
    (found,) = joined(request, fuse(request, WEIGHTS, legs, ()), {"a": hit_row("a", "x")})
    assert found.distance == 0.2


@pytest.mark.parametrize("order", [1, -1])
def test_a_hit_tells_its_best_rank_in_each_kind_of_leg(order: int) -> None:
    legs = [
        ranking("one", "vector", ("b", 0.1), ("a", 0.2)),
        ranking("two", "vector", ("a", 0.3), ("b", 0.4)),
        ranking("two", "text", ("c", 9.0), ("b", 1.0)),
    ]
    request, rows = Query(queries=["one", "two"], explain=True), {name: hit_row(name, name) for name in "abc"}
    found = joined(request, fuse(request, WEIGHTS, legs[::order], ()), rows)
    assert {each.id: each.ranks for each in found} == {
        "a": {"vector_rank": 1},
        "b": {"vector_rank": 1, "text_rank": 2},
        "c": {"text_rank": 1},
    }


def test_the_nearest_hit_tells_whether_a_search_has_an_answer() -> None:
    near, far = (each._replace(distance=value) for each, value in zip(candidates(2), (0.1, 0.9), strict=True))
    of = partial(confidence_of, Query(query="banana"), Fusion([], {}, ()))
    assert of([far, near]) == of([near, far]) == of([near]) != of([far])
    assert of([far._replace(distance=None)]) is None


def test_nothing_is_known_of_a_model_that_was_never_fitted() -> None:
    request, rows = Query(query="q"), {name: hit_row(name, "x") for name in "ab"}
    fitted = ranking("q", "vector", ("a", 0.2), ("b", 0.9))
    for vector in (fitted, replace(fitted, is_fitted=False)):
        found = rank_candidates(request, WEIGHTS, fuse(request, WEIGHTS, [vector], ()), rows)
        assert (found.confidence is not None) is vector.is_fitted
        # the only leg puts it first
        begin = found.confidence.answers if found.confidence else UNKNOWN
        assert found.candidates[0].score == pytest.approx(begin)


def test_a_first_hit_that_no_leg_found_keeps_its_score() -> None:
    request, rows = Query(query="`b`"), {name: hit_row(name, "x", symbol=name) for name in "ab"}
    leg = replace(ranking("`b`", "vector", ("a", 0.9)), is_fitted=False)
    fusion = fuse(request, WEIGHTS, [leg], {"b"})
    found = rank_candidates(request, WEIGHTS, fusion, rows)
    assert (found.candidates[0].id, found.confidence) == ("b", None)
    assert found.candidates[0].score > found.candidates[1].score > 0


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
@pytest.mark.parametrize("agreeing", [0, 1, AGREEING])
def test_a_search_has_an_answer_rather_if_words_and_meaning_find_the_same(agreeing: int, mode: Any) -> None:
    nearest = [f"n{number:02}" for number in range(AGREEING + 1)]
    words = [*nearest[:agreeing], *(f"w{number:02}" for number in range(AGREEING - agreeing)), nearest[-1]]
    rows = {name: hit_row(name, name) for name in {*nearest, *words}}
    legs = [ranking("q", "vector", *((name, 0.5) for name in nearest))]
    legs.append(ranking("q", "text", *((name, 0.5) for name in words)))
    other = ranking("other", "text", *((name, 0.5) for name in nearest))
    request = Query(query="q", mode=mode)
    fusion = fuse(request, WEIGHTS, [*legs, other], ())
    found = joined(request, fusion, rows)
    share = USUAL_AGREEMENT if mode == "vector" else agreeing / AGREEING
    texts = [f"{each.row.file_path}\n{each.row.chunk_text}" for each in found]
    sure = confidence_of(request, fusion, found)
    assert sure is not None
    evidence = Evidence(0.5, share, False, HitTexts.of(texts), compared=len(nearest))
    assert sure.fits == confidence("q", evidence).fits


def test_all_chunks_of_a_small_folder_may_agree() -> None:
    legs = [ranking("q", kind, ("a", 0.5), ("b", 0.6)) for kind in KINDS]
    request, rows = Query(query="q"), {name: hit_row(name, "x") for name in "ab"}
    fusion = fuse(request, WEIGHTS, legs, ())
    found = joined(request, fusion, rows)
    texts = [f"{each.row.file_path}\nx" for each in found]
    sure = confidence_of(request, fusion, found)
    assert sure is not None
    assert sure.fits == confidence("q", Evidence(0.5, 1.0, False, HitTexts.of(texts), compared=2)).fits


@pytest.mark.parametrize(
    ("scores", "better"),
    [
        # a first hit ahead of the fifth, by words and by the ranking
        ([9.0, 3.0, 3.0, 3.0, 3.0], [9.0, 8.9, 8.8, 8.7, 8.6]),
        ([9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0, 9.0]),
    ],
)
def test_a_first_hit_ahead_of_the_fifth_is_rather_the_answer(scores: list[float], better: list[float]) -> None:
    request = Query(query="water")

    def sure(words: list[float]) -> float:
        names = [f"c{number}" for number in range(len(words))]
        rows = {name: hit_row(name, "water", file_id=UUID(int=number)) for number, name in enumerate(names)}
        legs = [ranking("water", "vector", *((name, 0.4) for name in names))]
        legs.append(ranking("water", "text", *zip(names, words, strict=True)))
        found = rank_candidates(request, WEIGHTS, fuse(request, WEIGHTS, legs, ()), rows).confidence
        assert found is not None
        return found.answers

    assert sure(scores) > sure(better)


def test_the_query_that_fits_best_counts_and_so_does_a_name_that_is_defined() -> None:
    legs = [ranking(query, "vector", ("a", 0.4)) for query in ("water pump", "banana")]
    request, rows = Query(queries=["water pump", "banana"]), {"a": hit_row("a", "a banana")}
    sure = [
        rank_candidates(request, WEIGHTS, fuse(request, WEIGHTS, found, defining), rows).confidence
        for found, defining in ((legs, ()), (legs[::-1], ()), (legs, ("a",)))
    ]
    text = "a.py\na banana"
    assert [each and each.fits for each in sure] == [
        confidence("banana", Evidence(0.6, USUAL_AGREEMENT, each, HitTexts.of([text]), compared=1)).fits
        for each in (False, False, True)
    ]


def test_scores_begin_at_the_confidence_and_keep_their_proportions() -> None:
    rows = {name: hit_row(name, f"{name} water", file_id=UUID(int=number)) for number, name in enumerate("abc")}
    request = Query(query="water")
    fusion = fuse(request, WEIGHTS, [ranking("water", "vector", ("a", 0.1), ("b", 0.5), ("c", 0.9))], ())
    boosted = boost(request, RANKING_WEIGHTS, joined(request, fusion, rows), ())
    found, sure = rank_candidates(request, WEIGHTS, fusion, rows)
    assert sure is not None
    assert found[0].score == pytest.approx(sure.answers) != boosted[0].score
    assert [each.score / found[0].score for each in found] == pytest.approx(
        [each.score / boosted[0].score for each in boosted]
    )


@pytest.mark.parametrize(("change", "is_known"), [({"rerank": "none"}, False), ({}, True)])
def test_without_boosts_the_scores_are_those_of_the_legs(change: dict[str, str], is_known: bool) -> None:
    request, rows = Query.model_validate({"query": "q", **change}), {"a": hit_row("a", "x"), "b": hit_row("b", "y")}
    fusion = fuse(request, WEIGHTS, [ranking("q", "vector", ("a", 0.25), ("b", 0.5))], ())
    found, sure = rank_candidates(request, WEIGHTS, fusion, rows)
    assert [each.id for each in found] == ["a", "b"]
    assert (sure is not None) is is_known


def test_chunks_that_no_leg_found_come_last_by_path() -> None:
    names = [f"d{number}" for number in range(9)]
    request, rows = Query(query="q"), {name: hit_row(name, name) for name in ["a", *reversed(names)]}
    fusion = fuse(request, WEIGHTS, [ranking("q", "text", ("a", 1.0))], names)
    assert [each.id for each in joined(request, fusion, rows)] == ["a", *names]


def test_a_hit_names_the_queries_that_rank_it_near_the_top() -> None:
    names = [f"n{number:02}" for number in range(FINDER_RANKS + 2)]
    request = Query(queries=["one", "two"], top_k=1)
    behind = [("x", 9.0), *((name, 5.0) for name in names[: FINDER_RANKS - 1])]
    legs = [
        ranking("one", "text", *behind, ("late", 1.0)),
        ranking("two", "text", *((name, 5.0) for name in names[: FINDER_RANKS - 1]), ("x", 4.0), ("late", 1.0)),
    ]
    rows = {name: hit_row(name, name) for name in ("x", "late")}
    found = {each.id: each.queries for each in joined(request, fuse(request, WEIGHTS, legs, ()), rows)}
    # without one that ranks it near the top, those that find it at all
    assert found == {"x": ["one", "two"], "late": ["one", "two"]}
    legs[0] = ranking("one", "text", *((name, 5.0) for name in names[:FINDER_RANKS]), ("x", 1.0))
    (hit,) = joined(request, fuse(request, WEIGHTS, legs, ()), {"x": rows["x"]})
    assert hit.queries == ["two"]
