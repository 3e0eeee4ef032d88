"""The weights of legs follow how far their first results are ahead."""

from __future__ import annotations

from random import Random

import pytest

from api.search.rank.sureness import CODE, COMPARED_RANK, PROSE, UNKNOWN_WORDS, VectorTrust, sureness_factors

#: A keyword leg that found one chunk: its score is all lead.
SURE_WORDS = ("text", [9.0])
FLAT_WORDS = ("text", [9.0] * COMPARED_RANK)


def vectors(lead: float) -> tuple[str, list[float]]:
    return "vector", [0.5, *[0.5 - lead] * (COMPARED_RANK - 1)]


@pytest.mark.parametrize(
    ("trust", "lead", "factor"),
    [
        (PROSE, PROSE.equal, 1.0),
        (PROSE, PROSE.equal / 2, 0.5**PROSE.exponent),
        (PROSE, 0.0, PROSE.least),
        (CODE, CODE.equal, 1.0),
        (CODE, CODE.equal / 2, CODE.least),
        (CODE, CODE.equal * 1.5, 1.5),
        (CODE, CODE.equal * 3, CODE.most),
    ],
)
def test_vectors_count_by_their_lead_against_that_of_words(trust: VectorTrust, lead: float, factor: float) -> None:
    assert sureness_factors([vectors(lead), SURE_WORDS], trust) == pytest.approx([factor, 1.0])


@pytest.mark.parametrize("trust", [PROSE, CODE])
def test_words_that_cannot_tell_their_results_apart_yield_to_vectors(trust: VectorTrust) -> None:
    assert sureness_factors([vectors(0.2), FLAT_WORDS], trust) == [trust.most, 1.0]
    # a fifth result decides: with four, nothing was found there
    few = "text", FLAT_WORDS[1][:-1]
    assert sureness_factors([vectors(trust.equal), few], trust) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("trust", [PROSE, CODE])
def test_keywords_with_low_scores_know_few_words_of_the_query(trust: VectorTrust) -> None:
    _, text, code = sureness_factors([vectors(0.2), ("text", [10.0]), ("code", [5.0])], trust)
    assert (text, code) == pytest.approx((1.0, 0.5**trust.share_exponent))


@pytest.mark.parametrize("trust", [PROSE, CODE])
def test_keywords_with_low_scores_say_little_about_how_sure_words_are(trust: VectorTrust) -> None:
    share = 0.5**trust.share_exponent
    words = share / (1 + share)
    legs = [vectors(1.5 * words * trust.equal), ("text", [10.0] * COMPARED_RANK), ("code", [5.0])]
    assert sureness_factors(legs, trust)[0] == pytest.approx(1.5**trust.exponent)


@pytest.mark.parametrize("legs", [[vectors(0.2)], [SURE_WORDS], []])
def test_a_leg_without_others_keeps_its_weight(legs: list[tuple[str, list[float]]]) -> None:
    assert sureness_factors(legs, PROSE) == [1.0] * len(legs)


@pytest.mark.parametrize("trust", [PROSE, CODE])
def test_any_scores_give_factors_within_bounds_and_only_the_first_scores_count(trust: VectorTrust) -> None:
    random = Random(3)
    for _ in range(300):
        legs = [
            (kind, sorted((random.uniform(low, high) for _ in range(random.randrange(9))), reverse=True))
            for kind, low, high in (("vector", -1, 1), ("text", 0, 30), ("code", 0, 30), ("text", 0, 1))
        ]
        of_vectors, *of_words = sureness_factors(legs, trust)
        assert min(trust.least, UNKNOWN_WORDS) <= of_vectors <= trust.most
        assert all(0 <= factor <= 1 for factor in of_words)
        changed = [(kind, [*scores[:COMPARED_RANK], *(0.0 for _ in scores[COMPARED_RANK:])]) for kind, scores in legs]
        assert sureness_factors(changed, trust) == [of_vectors, *of_words]


@pytest.mark.parametrize("trust", [PROSE, CODE])
def test_words_that_score_nothing_do_not_change_the_legs(trust: VectorTrust) -> None:
    assert sureness_factors([vectors(0.2), ("text", [0.0] * COMPARED_RANK)], trust) == [1.0, 1.0]


@pytest.mark.parametrize("trust", [PROSE, CODE])
def test_vectors_count_little_for_a_query_whose_words_nothing_has(trust: VectorTrust) -> None:
    assert sureness_factors([vectors(0.2), ("text", []), ("code", [])], trust) == [UNKNOWN_WORDS, 1.0, 1.0]
