"""Weighs the legs of a query by how sure each of them is, which the scores of its first results tell.

Where one leg guesses, it must not outvote the one that knows. This is query performance prediction: a leg whose first
result is far ahead of the next ones is right more often. `make bench-search` measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Rank of the result that the first one is compared with. Nearer ones are often chunks of the same answer.
COMPARED_RANK = 5
#: Least sureness that counts, so that equal scores do not silence a leg.
MIN_SURENESS = 0.03
#: The factor of vectors for a query none of whose words is found. Its nearest chunk is near to nothing, and must not
#: outvote what another query of the same search finds.
UNKNOWN_WORDS = 0.25
#: The name of the leg by meaning; the other legs are keywords.
VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class VectorTrust:
    """The weight of vectors as a function of the legs' sureness, in one kind of text.

    At a lead of `equal` in cosines, vectors are as sure as keywords whose first score is all lead. The weight of
    vectors is multiplied by the ratio of both to the power of `exponent`, within `least` and `most`. The weight of a
    keyword leg is multiplied by its share of the best score of all keyword legs, to the power of `share_exponent`.
    """

    equal: float
    exponent: float
    least: float
    most: float
    share_exponent: float


#: In prose, the words of a question often stand in its answer. Either leg may be the one that knows.
PROSE = VectorTrust(equal=0.3, exponent=1.5, least=0.05, most=3.0, share_exponent=2.0)
#: Chunks of code resemble each other, so that their vectors seem less sure than they are.
CODE = VectorTrust(equal=0.15, exponent=1.0, least=1.0, most=2.0, share_exponent=1.0)


def sureness_factors(legs: Sequence[tuple[str, Sequence[float]]], trust: VectorTrust) -> list[float]:
    """The factor of the weight of each leg of a query, which has a kind and the scores of its results, best first.

    The scores of vectors are cosines. A keyword leg whose scores are far below those of another knows few of the
    query's words. Only the first `COMPARED_RANK` scores are read.
    """
    legs = [(kind, scores[:COMPARED_RANK]) for kind, scores in legs]
    best = max((scores[0] for kind, scores in legs if kind != VECTOR and scores), default=0.0)
    shares = [
        float((scores[0] / best) ** trust.share_exponent) if kind != VECTOR and scores and best > 0 else 1.0
        for kind, scores in legs
    ]
    of_words = [
        (share, 1 - (scores[-1] / scores[0] if len(scores) == COMPARED_RANK else 0.0))
        for (kind, scores), share in zip(legs, shares, strict=True)
        if kind != VECTOR and scores and scores[0] > 0
    ]
    if not of_words:
        of_keywords = [scores for kind, scores in legs if kind != VECTOR]
        alone = UNKNOWN_WORDS if of_keywords and not any(of_keywords) else 1.0
        return [alone if kind == VECTOR else share for (kind, _), share in zip(legs, shares, strict=True)]
    words = sum(share * sure for share, sure in of_words) / sum(share for share, _ in of_words)
    return [
        _of_vectors(scores[0] - scores[-1], words, trust) if kind == VECTOR and scores else share
        for (kind, scores), share in zip(legs, shares, strict=True)
    ]


def _of_vectors(lead: float, words: float, trust: VectorTrust) -> float:
    ratio = max(lead / trust.equal, MIN_SURENESS) / max(words, MIN_SURENESS)
    return min(trust.most, max(trust.least, float(ratio**trust.exponent)))
