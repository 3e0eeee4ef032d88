"""Tables of numbers do not enlarge the index of words by other spellings of their numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from worker.tokens import spellings
from worker.tokens.keywords import keywords_of
from worker.vectors.lance import indexes

CHUNKS, LINES = 400, 12
#: How much larger other spellings may make an index.
MAX_GROWTH = 1.05
WORDS = "the company reported net revenue of about million dollars while costs rose by percent in the prior period"


def _amount(rng: random.Random) -> str:
    return f"{rng.randint(1000, 9_999_999):,}"


def _finance(rng: random.Random) -> str:
    return "| " + " | ".join(["Revenue", *(f"{_amount(rng)}.{rng.randint(10, 99)}" for _ in range(8))]) + " |"


def _swiss(rng: random.Random) -> str:
    return _finance(rng).replace(",", "'")


def _one_a_line(rng: random.Random) -> str:
    return " ".join([*rng.choices(WORDS.split(), k=12), _amount(rng)]) + "."


def _tabs(rng: random.Random) -> str:
    return "\t".join(_amount(rng) for _ in range(4))


def _three_digits(rng: random.Random) -> str:
    return ",".join(str(rng.randint(100, 999)) for _ in range(4))


def _size(folder: Path, texts: list[str]) -> int:
    words = [keywords_of("a.md", "", text, "en") for text in texts]
    columns = {"words": [each.text for each in words], "code": [each.code for each in words]}
    dataset = lance.write_dataset(pa.table(columns), str(folder))
    for column in columns:
        indexes.create(dataset, column)
    return sum(file.stat().st_size for file in folder.rglob("*"))


@pytest.mark.parametrize("line", [_finance, _swiss, _one_a_line, _tabs, _three_digits], ids=lambda line: line.__name__)
def test_tables_do_not_enlarge_an_index(
    line: Callable[[random.Random], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(line.__name__)
    texts = ["\n".join(line(rng) for _ in range(LINES)) for _ in range(CHUNKS)]
    found = _size(tmp_path / "found", texts)
    monkeypatch.setattr(spellings, "MAX_WHOLE_NUMBERS", 0)
    assert found <= MAX_GROWTH * _size(tmp_path / "without", texts)
