"""Each spelling of a word finds the others, in both directions and in every keyword index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

from tests.contract.stores import WITH_KEYWORDS, D, axis, row
from tests.contract.test_keywords import FILTERS, Index
from worker.state.pool import Pool
from worker.state.search import keywords
from worker.tokens.keywords import IN_ENGLISH
from worker.tokens.normal_forms import normalized
from worker.vectors import Field, Leg, VectorStore

#: Characters that nobody sees, which editors, web pages and PDFs leave within words.
HIDDEN = (
    "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202c\u2060\u2063\u2066\u2069\ufe0f\ufeff\U000e0020"
)
#: Spellings of a word with marks that may be left out.
MARKED = [
    ("שָׁלוֹם", "שלום"),
    ("בְּרֵאשִׁית", "בראשית"),
    ("مُحَمَّد", "محمد"),
    ("كتـــاب", "كتاب"),
    ("هٰذا", "هذا"),
    ("می\u200cخواهم", "میخواهم"),  # noqa: RUF001 - foreign letters are the point
    ("за\u0301мок", "замок"),  # noqa: RUF001 - foreign letters are the point
    ("Ａｌｐｈａ", "alpha"),  # noqa: RUF001 - foreign letters are the point
    ("ﬁlter", "filter"),
    ("COVID\u201119", "COVID-19"),
    ("wi\u2010fi", "wi-fi"),
    *(
        (normalized("NFD", word), word)
        for word in ("café", "Schröder", "Ελλάδα", "Йод", "Việt", "ガラス", "한국", "آب")
    ),
]
#: Groups of spellings that find each other.
GROUPS: list[tuple[str, ...]] = [
    *MARKED,
    *((f"micro{character}service{number}", f"microservice{number}") for number, character in enumerate(HIDDEN)),
]
OTHERS = ["the other text says nothing", "a word of its own", "fish and hounds"]
TEXTS = [f"we know {spelling} here" for group in GROUPS for spelling in group] + OTHERS

Search = Callable[[str], Sequence[tuple[int, float]]]


def fused(*legs: Search) -> Callable[[str], list[int]]:
    """The texts that any of the legs finds, best first, with scores relative to the best of each leg."""

    def found(query: str) -> list[int]:
        total: dict[int, float] = {}
        for leg in legs:
            ranked = leg(query)
            for number, score in ranked:
                total[number] = total.get(number, 0.0) + (score / ranked[0][1]) ** 2
        return sorted(total, key=lambda number: (-total[number], number))

    return found


def in_store(store: VectorStore, space: str, field: Field) -> Search:
    def search(query: str) -> list[tuple[int, float]]:
        (found,) = store.search(space, [Leg(len(TEXTS), keywords=query, field=field)])
        return [(int(hit.id.replace("-", ""), 16), hit.value) for hit in found]

    return search


def in_postgres(index: Index, field: keywords.Field) -> Search:
    def search(query: str) -> list[tuple[int, float]]:
        values = {**dict.fromkeys(FILTERS), "query": query, "index_id": index.id, "limit": len(TEXTS)}
        found = keywords.search(index.pool, values, field, IN_ENGLISH)
        return [(int(id_.replace("-", ""), 16) ^ index.id.int, score) for id_, score in found]

    return search


def missed(found: Callable[[str], list[int]]) -> list[str]:
    """The spellings that do not find another one of their group before all else."""
    wrong, start = [], 0
    for group in GROUPS:
        numbers = {spelling: number for number, spelling in enumerate(group, start)}
        start += len(group)
        for asked, other in permutations(group, 2):
            if numbers[other] not in found(asked)[: len(group)]:
                wrong.append(f"{asked!a} misses {other!a}")
    return wrong


@pytest.mark.parametrize("store", WITH_KEYWORDS, indirect=True)
def test_each_spelling_finds_the_others_in_a_store(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(0), text) for number, text in enumerate(TEXTS)])
    assert missed(fused(in_store(store, space, "text"), in_store(store, space, "code"))) == []


def test_each_spelling_finds_the_others_in_postgres(pool: Pool) -> None:
    index = Index(pool, TEXTS)
    assert missed(fused(in_postgres(index, "text"), in_postgres(index, "code"))) == []
