"""Estimates whether a search has an answer at all, and how likely one of its first hits is the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from api.search.rank.boosts import MAX_ENDING, MIN_ROOT, terms
from worker.tokens.invisible import plain
from worker.tokens.language_words import text_words, unspaced_pairs
from worker.tokens.languages import DEFAULT
from worker.tokens.spellings import without_joints

#: Logistic regression on questions with and without an answer of fifteen folders, by the embedded model:
#: `make bench-search ONLY=confidence` prints how well it tells them apart in each of them.
WEIGHTS = {"nearest": 14.0, "words": 7.0, "run": 3.1, "defined": 2.4, "agreement": 1.8, "few": 1.3}
#: With this, a cosine of 0.6 alone is enough for `FITS`, and of 0.24 among two chunks: hits may answer a query in other
#: words.
INTERCEPT = -9.6
#: Nearest chunks that are counted. Among many chunks, one is near any query by chance: the cosine of the nearest one
#: to a query without an answer is 0.07 among one chunk, 0.17 among ten, and 0.24 among a hundred.
COUNTED_CHUNKS = 100
#: First hits whose words are compared with the query's.
READ_HITS = 5
#: First hits that tell how rare a word is.
COUNTED_HITS = 20
#: Words in a row that count fully.
MAX_RUN = 4
#: Leading words of a query that are searched for in a row, and leading pairs of characters that count as words.
MAX_QUERY_WORDS = 64
#: First chunks by vector, and by keywords, that are compared with each other.
AGREEING = 20
#: Agreement where only one kind of leg ran.
USUAL_AGREEMENT = 0.3
#: Score of the fifth hit, as a share of the first, where there are fewer hits.
USUAL_FIFTH = 0.5
#: Confidence below which nothing fits well. It holds for eight in ten of the questions without an answer, and for five
#: in a thousand of the others: a wrong note costs trust.
FITS = 0.23
#: Logistic regression on whether one of the first `ANSWERING_HITS` answers, where misses are negatives, and so are
#: questions without an answer. Its features and those above differ in `lead`, `fifth` and names.
HIT_WEIGHTS = {"nearest": 9.1, "words": 3.8, "run": 1.7, "agreement": 1.6, "lead": 1.8, "fifth": -3.7}
HIT_INTERCEPT = -5.4
#: Hits of which one is to be the answer.
ANSWERING_HITS = 5
#: Embedding models with which the regressions were fitted. The cosines of others differ.
FITTED_MODELS = frozenset({"local/all-minilm-l6-v2"})


@dataclass(frozen=True, slots=True)
class HitTexts:
    """The paths and texts of the best hits, best first: to look up words, and of the first ones the stems, in order."""

    lower: Sequence[str]
    stems: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> HitTexts:
        """The first hits' texts, prepared for comparison with the queries of a search."""
        stems = [f" {text_words(text, DEFAULT)} " for text in texts[:READ_HITS]]
        return cls(list(map(_comparable, texts[:COUNTED_HITS])), stems)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for whether the hits answer a query.

    `nearest` is the highest cosine similarity of a hit. `agreement`, 0 to 1, is the share of the nearest chunks that
    keywords find first too. `is_defined` says whether a chunk defines a name of the query. `lead`, 0 to 1, is how far
    the first score by words is ahead of the fifth, and `fifth` the score of the fifth hit as a share of the first.
    `compared` is the number of chunks among which the nearest was found; more than `COUNTED_CHUNKS` count as these.
    """

    nearest: float
    agreement: float
    is_defined: bool
    texts: HitTexts
    lead: float = 0.0
    fifth: float = 0.0
    compared: int = COUNTED_CHUNKS


class Confidence(NamedTuple):
    """The probability that the folder has an answer, and that one of the first hits is it. Both are 0 to 1."""

    fits: float
    answers: float


def confidence(query: str, evidence: Evidence) -> Confidence:
    """The confidence in the hits of a query."""
    found = features(query, evidence)
    return Confidence(_regressed(found, WEIGHTS, INTERCEPT), _regressed(found, HIT_WEIGHTS, HIT_INTERCEPT))


def _regressed(found: Mapping[str, float], weights: Mapping[str, float], intercept: float) -> float:
    return 1 / (1 + math.exp(-intercept - sum(weight * found[name] for name, weight in weights.items())))


def features(query: str, evidence: Evidence) -> Mapping[str, float]:
    """The inputs of the regressions, by the names of their weights."""
    return {
        "nearest": evidence.nearest,
        "words": _words(query, evidence.texts.lower),
        "run": _run(query, evidence.texts.stems) / MAX_RUN,
        "defined": float(evidence.is_defined),
        "agreement": evidence.agreement,
        "lead": evidence.lead,
        "fifth": evidence.fifth,
        "few": math.log(COUNTED_CHUNKS / min(COUNTED_CHUNKS, evidence.compared)),
    }


def _words(query: str, texts: Sequence[str]) -> float:
    """The largest share of the query's words that one hit has. A word counts more if fewer hits have it."""
    roots = _roots(query)
    if not roots or not texts:
        # a query of stop words alone says nothing
        return 0.0 if roots else 0.5
    hits_with = {root: {number for number, text in enumerate(texts) if root in text} for root in roots}
    rareness = {root: math.log(1 + len(texts) / (1 + len(hits))) for root, hits in hits_with.items()}
    found = (
        sum(rareness[root] for root, hits in hits_with.items() if number in hits)
        for number in range(min(READ_HITS, len(texts)))
    )
    return max(found) / sum(rareness.values())


def _roots(query: str) -> list[str]:
    """The beginnings of words, and the pairs of characters of scripts without spaces."""
    # what the query writes apart is counted by its parts
    written = _comparable(query)
    spaced = (word for word in terms(query) if word in written and not unspaced_pairs(word))
    pairs = unspaced_pairs(query)[:MAX_QUERY_WORDS]
    return [*(word[: max(MIN_ROOT, len(word) - MAX_ENDING)] for word in spaced), *dict.fromkeys(pairs)]


def _comparable(text: str) -> str:
    """A text in lower case, as written and with all its words joined: `Wi-Fi` is also `wifi`."""
    lower = plain(text).lower()
    return f"{lower}\n{without_joints(lower)}"


def _run(query: str, texts: Sequence[str]) -> int:
    """The number of words of the query that follow each other in one hit too, at most `MAX_RUN`."""
    words = text_words(query, DEFAULT).split()[:MAX_QUERY_WORDS]
    longest = 0
    for text in texts:
        start = 0
        while longest < MAX_RUN and start + longest < len(words):
            if f" {' '.join(words[start : start + longest + 1])} " in text:
                longest += 1
            else:
                start += 1
    return longest
