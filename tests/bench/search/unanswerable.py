"""Questions without an answer: those of another fold, and those about nothing that a folder of software holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.bench.search.questions import Label, Question

KIND = "unanswerable"
#: No chunk is at this path, which no folder has.
NOWHERE = (Label(path=""),)
OFF_TOPIC = (
    "banana smoothie recipe",
    "how long do you boil an egg",
    "symptoms of a vitamin D deficiency",
    "best hiking trails near Lake Como",
    "who won the women's marathon in 1984",
    "how to prune an old apple tree",
    "mortgage rates for first-time buyers",
    "difference between alto and tenor saxophone",
    "why do cats purr at night",
    "train from Lisbon to Porto timetable",
    "when was the cathedral of Reims built",
    "watercolour techniques for painting clouds",
)


def unanswerable(asked: Mapping[str, Sequence[Question]]) -> dict[str, list[Question]]:
    """For each fold, the questions of the next one, except symbols, and questions about other things."""
    folds = list(asked)
    following = dict(zip(folds, [*folds[1:], *folds[:1]], strict=True))
    return {
        fold: [
            Question(query=query, kind=KIND, relevant=NOWHERE)
            for query in [*(each.query for each in asked[following[fold]] if each.kind != "symbol"), *OFF_TOPIC]
        ]
        for fold in folds
    }
