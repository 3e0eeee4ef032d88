"""Counts the words that the reader of each format finds, beside what a megabyte costs.

The documents are those of `made`, whose words are known. A format without a writer is read from its sample, whose
expected text was checked by hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from schemas.errors import FileError
from schemas.reason import Reason
from tests.bench import made
from tests.contract.samples import DATA, SAMPLES, expected
from tests.parsing import parse
from worker.formats.registry import FORMATS
from worker.parse import Limits

#: Least share of the words that each reader must find, below which the benchmark fails. OCR misreads some.
FLOOR = 0.99
FLOORS = {"image": 0.9, "doc": 0.95}
#: Times that each document is read. The least time counts.
TIMES = 5
_LACKING = {Reason.NEEDS_OCR, Reason.UNSUPPORTED_TYPE}
_WORD = re.compile(r"\w+")


class Document(NamedTuple):
    """A document to read, and the words in it."""

    name: str
    data: bytes
    truth: str


def documents() -> dict[str, Document]:
    """A document of each format."""
    text = made.sections()
    truth = " ".join(section.words for section in text)
    found = {type_: Document(f"made.{ending}", write(text), truth) for type_, (ending, write) in made.WRITERS.items()}
    found["image"] = Document("made.png", made.picture(), made.PICTURE_WORDS)
    for format_ in FORMATS:
        sample = next((path for path in SAMPLES if path.parent == DATA / format_.type), None)
        if format_.type not in found and sample:
            found[format_.type] = Document(sample.name, sample.read_bytes(), expected(sample)[1])
    return found


def share(truth: str, found: str) -> tuple[int, int]:
    """The number of the truth's words that are found, each as often as it is there, and that of all."""
    wanted, there = (Counter(_WORD.findall(text.casefold())) for text in (truth, found))
    return (wanted & there).total(), wanted.total()


def measure(clock: Callable[[], float]) -> list[str]:
    """Print a row for each format. Returns the formats below their floor."""
    print(f"{'format':10} {'words found':>12} {'of':>7} {'recall':>7} {'kB':>6} {'s/MB':>7}")
    below = []
    for type_, (name, data, truth) in documents().items():
        try:
            seconds, text = _read(clock, name, data)
        except FileError as error:
            print(f"{type_:10} not read: {error.message}")
            # what lacks a program is no fault of the reader
            below += [] if error.reason in _LACKING else [type_]
            continue
        found, wanted = share(truth, text)
        print(f"{type_:10} {found:12,} {wanted:7,} {found / wanted:7.3f} {len(data) / 1e3:6.0f} {seconds:7.3f}")
        if found < FLOORS.get(type_, FLOOR) * wanted:
            below.append(type_)
    print(f"words found: floor {FLOOR}, {FLOORS}. s/MB: processor time of reading, the least of {TIMES} times.")
    return below


def _read(clock: Callable[[], float], name: str, data: bytes) -> tuple[float, str]:
    """Seconds for a megabyte, and the text."""
    # the first call starts the helper and imports what it needs
    text, least = parse(name, data, Limits()).text, float("inf")
    for _ in range(TIMES):
        started = clock()
        parse(name, data, Limits())
        least = min(least, clock() - started)
    return least / len(data) * 1e6, text
