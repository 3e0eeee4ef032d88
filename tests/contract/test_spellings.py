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
    ("SARS\u201102", "SARS-02"),
    ("hi\u2010lo", "hi-lo"),
    *(
        (normalized("NFD", word), word)
        for word in ("café", "Schröder", "Ελλάδα", "Йод", "Việt", "ガラス", "한국", "آب")
    ),
]
#: Spellings that join or split words, and words with numbers, units and versions.
JOINED = [
    ("ISO27001", "ISO 27001", "ISO-27001", "iso27001"),
    ("Covid19", "COVID-19", "covid 19", "Covid_19"),
    ("Wi-Fi", "wifi", "WiFi", "wi fi"),
    ("e-mail", "email", "E-Mail"),
    ("U.S.A.", "USA"),
    ("GPT4", "GPT-4", "GPT 4"),
    ("node.js", "nodejs", "Node.JS"),
    ("Express.js 18", "expressjs18", "ExpressJS 18"),
    ("sign-off", "signoff", "sign off"),
    ("log-ins", "logins"),
    ("co-operate", "cooperate"),
    ("data sets", "dataset", "data-set"),
    ("Time Out", "timeout", "time-out"),
    ("end points", "endpoint", "end-points"),
    ("check in", "checkin", "check-in"),
    ("run times", "runtime"),
    ("fine tune", "fine-tune", "finetune"),
    ("TCP/IP", "tcpip", "TCP-IP"),
    ("1,250,000", "1250000"),
    ("Goethe", "Göthe"),
    ("R&D", "RD"),
    ("O'Reilly", "oreilly"),
    ("user_id", "userid", "user-id", "userId"),
    ("x86-64", "x86_64"),
    ("v1.2.3", "1.2.3"),
    ("Python3.11", "Python 3.11", "python-3.11"),
    ("3.5mm", "3.5 mm", "3.5-mm"),
    ("32GB", "32 GB", "32-GB"),
    ("2x", "2 x"),
    ("C++17", "C++ 17"),
    ("ASP.NET", "aspnet"),
]
#: Words in the singular and the plural, pictures, and the beginnings of hashes.
OTHER_FORMS = [
    ("mouse", "mice"),
    ("index", "indices", "indexes"),
    ("child", "children"),
    ("analysis", "analyses"),
    ("thief", "thieves"),
    ("alias", "aliases"),
    ("quiz", "quizzes"),
    ("bookshelf", "bookshelves"),
    ("subindex", "subindices"),
    ("stadium", "stadia"),
    ("bureau", "bureaux"),
    ("\U0001f680", "\U0001f680\ufe0f"),
    ("\U0001f44d", "\U0001f44d\U0001f3fd"),
    ("\u2764\ufe0f", "\u2764"),
    ("\U0001f1e9\U0001f1ea",),
    ("9fceb02d0ae598e95dc970b74767f19372d61af8", "9fceb02", "9fceb02d0ae5", "9FCEB02D0AE598E9"),
    ("3b18e512dba79e4c8300dd08aeb37f8e728b8dad3b18e512dba79e4c8300dd08", "3b18e51"),
]
#: Groups of spellings that find each other.
GROUPS: list[tuple[str, ...]] = [
    *MARKED,
    *JOINED,
    *OTHER_FORMS,
    *((f"micro{character}service{number}", f"microservice{number}") for number, character in enumerate(HIDDEN)),
]
OTHERS = [
    *(
        "64 GB and 32 MB",
        "16GB",
        "32 of them",
        "ISO 9001",
        "27001 people",
        "GPT-5 and a 4",
        "COVID-18",
        "a fi",
        "a wide wi",
    ),
    *("a fish", "2 and x", "v1.2.4", "Python 3.12", "3.5 cm", "5 mm", "x86-32", "a9fceb02", "9fceb03", "\U0001f681"),
]
TEXTS = [f"we know {text} here" for text in (*(spelling for group in GROUPS for spelling in group), *OTHERS)]

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


def missed(found: Callable[[str], list[int]]) -> str:
    """The spellings that do not find another one of their group before all else."""
    wrong, start = [], 0
    for group in GROUPS:
        numbers = {spelling: number for number, spelling in enumerate(group, start)}
        start += len(group)
        for asked, other in permutations(group, 2):
            if numbers[other] not in found(asked)[: len(group)]:
                wrong.append(f"{asked!a} misses {other!a}")
    return "\n".join(wrong)


@pytest.mark.parametrize("store", WITH_KEYWORDS, indirect=True)
def test_each_spelling_finds_the_others_in_a_store(store: VectorStore, space: str) -> None:
    store.write(space, D, [row(number, axis(0), text) for number, text in enumerate(TEXTS)])
    assert missed(fused(in_store(store, space, "text"), in_store(store, space, "code"))) == ""


def test_each_spelling_finds_the_others_in_postgres(pool: Pool) -> None:
    index = Index(pool, TEXTS)
    assert missed(fused(in_postgres(index, "text"), in_postgres(index, "code"))) == ""
