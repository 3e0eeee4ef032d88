"""Estimates how likely the first hits of a search answer it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from api.search.rank.boosts import MAX_ENDING, MIN_ROOT, terms

#: Logistic regression on questions with and without an answer of eleven folders, by the embedded model:
#: `make bench-search ONLY=confidence` prints how well it tells them apart in each of fifteen.
COSINE_WEIGHT = 12.0
WORDS_WEIGHT = 7.1
INTERCEPT = -8.9
#: First hits whose words are compared with the query's.
READ_HITS = 5
#: Confidence below which nothing fits well. It holds for six in ten of the questions without an answer, and for eight
#: in a thousand of the others: a wrong note costs trust.
FITS = 0.05


def confidence(query: str, nearest: float, texts: Sequence[str]) -> float:
    """How likely one of the hits answers the query, 0 to 1.

    `nearest` is the highest cosine similarity of a hit, and `texts` are paths and texts of the best hits, best first.
    """
    roots = [word[: max(MIN_ROOT, len(word) - MAX_ENDING)] for word in terms(query)]
    # a query of stop words alone says nothing
    shared = max((_share(roots, text.lower()) for text in texts[:READ_HITS]), default=0.0) if roots else 0.5
    return 1 / (1 + math.exp(-(COSINE_WEIGHT * nearest + WORDS_WEIGHT * shared + INTERCEPT)))


def _share(roots: Iterable[str], text: str) -> float:
    found = [root in text for root in roots]
    return sum(found) / len(found)
