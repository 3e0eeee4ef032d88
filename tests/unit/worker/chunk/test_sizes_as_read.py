"""No chunk is longer than its size as it is read on its own, whatever escapes and bytes stand in a text."""

from __future__ import annotations

import base64
from random import Random

import numpy as np
import pytest

from schemas.content.document import Document
from schemas.content.source import ChunkSettings
from worker.chunk import chunk
from worker.chunk.measure import measure
from worker.formats.registry import BY_TYPE
from worker.reading import way_of
from worker.tokens.tokenizers import cl100k

SIGNS = [
    r"\u00f6",
    r"\u5927",
    r"\ud83d",
    r"\n",
    r"\\",
    "&uuml;",
    "%C3%BC",
    "=C3=BC",
    r"\x41\xc3\xbc",
    "\n",
    "   ",
    "大",
]
TEXTS = ["# A\n", '{"a": ', "]", '"', ",", "word ", "def f(x):\n    return x\n", "a: b\n", "|a|b|\n", "Donaudampf"]
MARKUPS = ("lines", "markdown", "keys", "table")


def part(random: Random) -> str:
    kind = random.randrange(5)
    data = random.randbytes(random.choice([30, 60, 150, 400, 900]))
    if kind == 0:
        return base64.b64encode(data).decode() if random.random() < 0.7 else data.hex()
    if kind == 1:
        lines = (base64.b64encode(random.randbytes(57)).decode() for _ in range(random.randrange(5)))
        return "\n".join(lines)
    return random.choice(SIGNS if kind < 4 else TEXTS)


@pytest.mark.parametrize("unit", ["tokens", "characters"])
@pytest.mark.parametrize("seed", range(30))
def test_chunks_are_within_their_size_on_their_own(seed: int, unit: str) -> None:
    random = Random(seed)
    types = sorted(type_ for type_ in BY_TYPE if way_of(type_) is not None)
    text = "".join(part(random) for _ in range(random.choice([20, 80, 200])))
    document = Document(text, random.choice(types), markup=random.choice(MARKUPS))
    # a placeholder may have some 20 characters
    size = random.choice([32, 64, 128]) * (4 if unit == "characters" else 1)
    granularity = random.choice(["definition", "packed"])
    settings = ChunkSettings(unit=unit, size=size, overlap=random.choice([0, size // 4]), granularity=granularity)
    chunks = chunk(document, settings, cl100k(), 8_192)
    read = [each.text if each.read is None else each.read for each in chunks]
    lengths = [len(each) if unit == "characters" else len(cl100k().starts(each)) for each in read]
    assert max(lengths) <= size
    assert [text[each.start_char : each.end_char] for each in chunks] == [each.text for each in chunks]


def test_an_overlap_longer_than_the_text_before_it_starts_with_the_text() -> None:
    text = "Stra&szlig;e " * 9
    settings = ChunkSettings(unit="characters", size=40, overlap=20)
    limits = measure(text, settings, cl100k(), 8_192, context_tokens=0, type_="text")
    assert limits.at_chars(np.array([-20, -1, 0, 7])).tolist() == [0, 0, 0, 13]
