"""A random search for files that a worker reads itself, and that take more time than their length accounts for.

It takes 5 s of processor time; `FILE_SECONDS` allows more, and `FILE_SEED` repeats a search.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from schemas.content.source import ChunkSettings
from schemas.errors import FileError
from tests.parsing import parse
from tests.pumps import grows_too_fast
from worker.chunk import chunk
from worker.formats.registry import FORMATS
from worker.index.memory_guard import GuardedTokenizer
from worker.parse import Limits
from worker.tokens.keywords import keywords_of
from worker.tokens.languages import language_of
from worker.tokens.tokenizers import cl100k

SECONDS = float(os.environ.get("FILE_SECONDS") or 5)
SEED = os.environ.get("FILE_SEED") or time.strftime("%Y-%m-%d")
#: Bytes of a file: a square would take seconds.
SIZE = 60_000
#: Tokens that a model takes.
MAX_TOKENS = 8191

#: Names of files that are read where they are indexed. Code is read there if its language has no grammar.
NAMES = [f"a.{row.extensions.split()[0]}" for row in FORMATS if row.extensions and not row.is_isolated(SIZE)] + [
    "a.lua"
]
ATOMS = [
    *(
        "a",
        "b",
        "ab",
        "A",
        "1",
        "0.5",
        "é",
        "中",
        "ก",
        "\u0301\u0316",
        "\u05b4",
        "\u200b",
        "x_y",
        "C++",
        "=?utf-8?q?a?=",
    ),
    *("\n", "\n\n", "\r\n", "\t", " ", "    ", "\u2028", "\x0c", "\xa0"),
    *(
        ",",
        ";",
        ":",
        ".",
        '"',
        '""',
        "'",
        "'''",
        '"""',
        "|",
        "\\",
        "/",
        "//",
        "/*",
        "*/",
        "&amp;",
        "$",
        "%",
        "-",
        "+",
        "*",
    ),
    *(
        "#",
        "# ",
        "## ",
        "=",
        "==",
        "---",
        "+++",
        "- ",
        "* ",
        "> ",
        "```",
        "~~~",
        "|-|",
        "[",
        "]",
        "[]",
        "{",
        "}",
        "(",
        ")",
    ),
    *(
        "<a>",
        "</a>",
        "<",
        ">",
        "<!--",
        "-->",
        "<?",
        "{{",
        "}}",
        "null,",
        '"a":1,',
        '{"a":',
        "key: |\n",
        "key = ",
        "[a]\n",
    ),
    *(
        "@a{b,",
        "\\section{",
        "\\begin{a}",
        "* TODO ",
        "#+BEGIN_SRC\n",
        ".. a::\n",
        "= ",
        "====\na\n",
        "1\n00:00:01,000 --> 00:00:02,000\n",
    ),
]
SETTINGS = [
    ChunkSettings(),
    ChunkSettings(size=16),
    ChunkSettings(size=50, overlap=49),
    ChunkSettings(unit="characters", size=100, overlap=99),
    ChunkSettings(granularity="packed", threshold=400),
]


def index(name: str, text: str, settings: ChunkSettings) -> None:
    """Read, cut and divide into words, as a run does."""
    with suppress(FileError):
        document = parse(name, text.encode(), Limits())
        language = language_of(document.text)
        tokenizer = GuardedTokenizer(cl100k(), settings, MAX_TOKENS, document.markup, Limits().memory_bytes)
        for piece in chunk(document, settings, tokenizer, MAX_TOKENS):
            keywords_of(name, piece.context, piece.text, language)


def text_of(chance: random.Random) -> Callable[[int], str]:
    """A text of mostly one part, in one line or in many."""
    begin, part, other, end = ("".join(chance.choices(ATOMS, k=chance.randint(1, 4))) for _ in "1234")
    part += chance.choice(["", "", "\n"])
    both = chance.random() < 0.3

    def text(size: int) -> str:
        middle = part * (size // len(part) // (1 + both))
        return begin + middle + (other * (size // 2 // len(other)) if both else "") + end

    return text


@pytest.mark.timeout(60 + 20 * SECONDS)
def test_no_random_file_takes_a_power_of_its_length() -> None:
    chance = random.Random(SEED)
    for name in NAMES:
        # what is loaded with the first file of a kind
        index(name, "word été слово 中文 " * 500, SETTINGS[0])
    end, tried = time.process_time() + SECONDS, 0
    while time.process_time() < end:
        state = chance.getstate()
        name, settings = chance.choice(NAMES), chance.choice(SETTINGS)
        text = text_of(chance)
        if grows_too_fast(lambda each: index(name, each, settings), text, SIZE):  # noqa: B023 - called at once
            chance.setstate(state)
            pytest.fail(f"FILE_SEED={SEED}, number {tried}: {name} of {text(60)!r} with {settings}")
        tried += 1
    assert tried > 10
