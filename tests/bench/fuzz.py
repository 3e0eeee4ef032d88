"""Finds the slowest repeated text of one or two tokens for each format, in processor seconds for each megabyte."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path

import psutil

from schemas.content.source import ChunkSettings
from schemas.errors import FileError
from worker.chunk import chunk
from worker.formats.detect import detect
from worker.parse import Limits
from worker.parse.sandbox import client as sandbox
from worker.parse.sandbox.read import read
from worker.tokens.tokenizers import cl100k

#: Formats that people write by hand, and languages of code, whose syntax trees are built in the helper process.
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
    """Processor time to read and chunk this many bytes of a token, including the helper's time for code."""
    data = (token * (size // len(token.encode()))).encode()
    # a slow text ends its helper; the start of the next one is not the next text's time
    _cut(name, b"a b\n")
    began = time.process_time() + helper_seconds()
    _cut(name, data)
    return time.process_time() + helper_seconds() - began


def _cut(name: str, data: bytes) -> None:
    with suppress(FileError):
        file = detect(name, data)
        chunk(read(file.format, data, Limits(), file.language), ChunkSettings(), cl100k(), 8192)


def helper_seconds() -> float:
    """Processor time of the helpers so far: of those that have ended, and of the running one."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sandbox.parser.running and psutil.Process(sandbox.parser.running.process.pid).cpu_times()
    return ended.ru_utime + ended.ru_stime + (running.user + running.system if running else 0.0)


def slowest(name: str, tokens: Iterable[str], size: int) -> tuple[float, str]:
    """The highest number of seconds for a text, and its token."""
    return max((seconds(name, token, size), token) for token in tokens)


def run(_: Path) -> None:
    """Print the slowest text of each format."""
    choice = random.Random(SEED)
    pairs = ["".join(pair) for pair in choice.sample(list(product(TOKENS, repeat=2)), PAIRS)]
    print(f"{len(TOKENS)} tokens and {PAIRS} pairs, {SIZE:,} bytes of each; processor time of reading and cutting")
    for name in (*FORMATS, *LANGUAGES):
        took, token = slowest(f"a.{name}", [*TOKENS, *pairs], SIZE)
        print(f"{name:6} {took * 1e6 / SIZE:5.2f} s/MB at most, of {token!r}", flush=True)
