"""Texts of one or two tokens, repeated: the slowest of each format, in seconds of processor time for a megabyte."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path

from schemas.errors import FileError
from schemas.source import ChunkSettings
from worker.chunk import chunk
from worker.formats.by_content import detect
from worker.parse import Limits
from worker.parse.sandbox import client as sandbox
from worker.parse.sandbox.read import read
from worker.tokens.tokenizers import cl100k

#: The formats that people write by hand, and languages of code, whose syntax trees are made in the helper process.
FORMATS = "txt md rst adoc org tex json jsonl ipynb yaml toml csv html xml eml rtf".split()  # noqa: SIM905 - legible
LANGUAGES = "py js ts c cpp java go rs rb php cs sh".split()  # noqa: SIM905 - legible
TOKENS = (
    *"#[]{}()<>|/\\\"'`$%@&*=+-_~^;:,.!?x0é語\t\r\n ",
    *("# ", "- ", "* ", "1. ", "- a\n", "- - ", "=\n", "| ", "|a|\n", "a b\n\n", "```", "```\n", "~~~\n", "[](", "!["),
    *(
        "a: ",
        "a:\n",
        "a.b:",
        "? ",
        "!!",
        "&a ",
        "0,",
        "=>",
        "::",
        ".. ",
        "a::\n",
        "....\n",
        "#+",
        "\\begin{a}\n",
        "\\(",
    ),
    *("<a>", "</a>", "<!--", "&#1", "/*", "*/", "//", "--", "{%", '"""'),
)
SIZE, PAIRS, SEED = 1_000_000, 30, 7


def seconds(name: str, token: str, size: int) -> float:
    """Processor time to read and cut so many bytes of a token, the helper's time for code included."""
    data = (token * (size // len(token.encode()))).encode()
    began = time.process_time() + _children()
    with suppress(FileError):
        format_, language = detect(name, data)
        chunk(read(format_, data, Limits(), language), ChunkSettings(), cl100k(), 8192)
    return time.process_time() + _children() - began


def _children() -> float:
    """The processor time of helpers that ended, which slow ones do."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def slowest(name: str, tokens: Iterable[str], size: int) -> tuple[float, str]:
    """The most seconds that a text takes, and its token."""
    return max((seconds(name, token, size), token) for token in tokens)


def run(_: Path) -> None:
    """Print the slowest text of each format."""
    choice = random.Random(SEED)
    pairs = ["".join(pair) for pair in choice.sample(list(product(TOKENS, repeat=2)), PAIRS)]
    print(f"{len(TOKENS)} tokens and {PAIRS} pairs, {SIZE:,} bytes of each; processor time of reading and cutting")
    for name in (*FORMATS, *LANGUAGES):
        seconds(f"a.{name}", "a b\n", 1000)
        sandbox.stop()
        took, token = slowest(f"a.{name}", [*TOKENS, *pairs], SIZE)
        print(f"{name:6} {took * 1e6 / SIZE:5.2f} s/MB at most, of {token!r}", flush=True)
