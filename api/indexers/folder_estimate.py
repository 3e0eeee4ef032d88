"""Estimates what indexing a folder costs: lists it, and counts the tokens of a sample. Parses and stores nothing."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from schemas.content.document import SEPARATOR_TOKENS, ListingPage, SourceEntry
from schemas.content.source import Granularity
from schemas.content.stated import is_sidecar
from schemas.errors import FileError
from schemas.estimate import CutEstimate, Estimate, Range
from schemas.reason import Reason
from schemas.tool import IndexSettings
from worker.formats import by_name
from worker.formats.listed import reason_of
from worker.formats.registry import AS_WRITTEN
from worker.reading import embedded
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.texts import sample_of
from worker.sources import Source
from worker.tokens.tokenizers import Tokenizer, cl100k

#: Files and bytes of a sample.
SAMPLE_FILES = 200
SAMPLE_BYTES = 32_000_000
#: Characters of a file that are counted; the others are taken to be like them.
SAMPLE_CHARACTERS = 1_000_000
#: Seconds of listing, and of reading the sample.
LIST_SECONDS = 20.0
SAMPLE_SECONDS = 8.0
#: Standard errors to either side of an estimate that hold the true number in 19 of 20 samples.
_DEVIATIONS = 2.0
#: Tokens of a byte that are certainly not exceeded.
_MAX_PER_BYTE = 1.0
#: What cutting makes of a text's tokens, by overlaps, headings and blanks: least, usually and most. Measured over
#: documents and code of seven projects. Tables repeat the headers of their columns.
_CUT: dict[Granularity, tuple[float, float]] = {"definition": (0.97, 1.08), "packed": (0.97, 1.06)}
_MAX_CUT = {"code": 1.3, "csv": 2.0}
_MAX_CUT_OTHERWISE = 1.2
#: Each chunk of code repeats the headers of the definitions around it, for which a quarter of what the model takes is
#: left free, but no more than this.
_HEADER_ROOM = 130
#: The usual tokens of these headers, times the maximum tokens of a chunk: 21 of 190, 8 of 512 and 2 of 2,048. Parts of
#: a long definition have the most. Measured over eight projects in six languages.
_HEADERS = 4000
#: Usual tokens of a chunk, by the maximum. Definitions do not grow with it: 65, 140 and 240 tokens of 64, 512 and
#: 2,048. Packed chunks are as full whatever the maximum. Measured as before.
_USUAL_CHUNK: dict[Granularity, Callable[[float], float]] = {
    "definition": lambda size: min(size, 13 * size**0.38),
    "packed": lambda size: 0.6 * size,
}
#: The fewest tokens of a chunk on average, as a share of the usual ones. Measured as before.
_MIN_CHUNK = 1 / 3
#: Bytes of a vector's dimension in a store.
_DIMENSION_BYTES = 4

#: Tells how many of a page's files the index holds already, unchanged.
Unchanged = Callable[[Sequence[SourceEntry]], set[bytes]]


@dataclass(frozen=True, slots=True)
class PricedModel:
    """The model's limits, and its price in US dollars per million tokens."""

    name: str
    max_inputs: int
    max_request_tokens: int
    price: float | None


class _TokenCounts(NamedTuple):
    """The tokens of a file's text, and how many they may become when it is cut.

    `repeated` are the tokens in front of each chunk, which neither includes. `chunk` is the maximum tokens of a chunk.
    """

    tokens: float = 0
    most_tokens: float = 0
    repeated: float = 0
    chunk: float = 1


class _Sampled(NamedTuple):
    """A sample of the folder's files, and the way to read and count it."""

    source: Source
    settings: IndexSettings
    helpers: ProjectHelpers
    tokenizer: Tokenizer


@dataclass(slots=True)
class _ListingTally:
    """Counts from the listing. `sample` holds files that are counted, each with the same probability."""

    complete: bool = False
    files: int = 0
    bytes: int = 0
    unchanged: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    uncounted: int = 0
    uncounted_bytes: int = 0
    counted: int = 0
    counted_bytes: int = 0
    sample: list[SourceEntry] = field(default_factory=list)


def estimate(
    source: Source,
    settings: IndexSettings,
    types: frozenset[str],
    unchanged: Unchanged,
    *,
    helpers: ProjectHelpers,
    tokenizer: Tokenizer,
    model: PricedModel,
) -> Estimate:
    """Estimate a run over a source. Raises `SourceError`."""
    # the same folder gives the same answer
    random = Random(0)  # noqa: S311 - chooses a sample
    listed = _list(source, settings, types, unchanged, random)
    random.shuffle(listed.sample)
    sampled = _Sampled(source, settings, helpers, tokenizer)
    read, sizes, skipped = _count(sampled, listed.sample)
    by_granularity = _by_granularity(listed, read, sizes, model, settings.embedder.dimensions)
    asked = by_granularity[settings.chunks.granularity]
    return Estimate(
        complete=listed.complete,
        total_files=listed.files,
        total_bytes=listed.bytes,
        unchanged_files=listed.unchanged,
        skipped=listed.skipped,
        ignored=listed.ignored,
        uncounted_files=listed.uncounted,
        uncounted_bytes=listed.uncounted_bytes,
        sampled_files=len(read),
        skipped_in_sample=skipped,
        tokens=asked.tokens,
        requests=asked.requests,
        model=model.name,
        price=model.price,
        cost=asked.cost,
        by_granularity=by_granularity,
        notes=_notes(listed),
    )


def _list(
    source: Source, settings: IndexSettings, types: frozenset[str], unchanged: Unchanged, random: Random
) -> _ListingTally:
    listed, deadline = _ListingTally(), time.monotonic() + LIST_SECONDS
    source.check()
    cursor = None
    while not listed.complete and time.monotonic() < deadline:
        page = source.list(cursor)
        listed.slow += page.slow
        _add(listed, page, settings, types, unchanged, random)
        cursor, listed.complete = page.cursor, page.cursor is None
    return listed


def _add(
    listed: _ListingTally,
    page: ListingPage,
    settings: IndexSettings,
    types: frozenset[str],
    unchanged: Unchanged,
    random: Random,
) -> None:
    sidecars = {entry.key for entry in page.entries if settings.sidecars and is_sidecar(entry.path)}
    kept = [e for e in page.entries if e.key in sidecars or by_name.has_type(types, e.path, e.type)]
    listed.ignored += Counter(page.ignored) + Counter(types=len(page.entries) - len(kept))
    held = unchanged(kept)
    for entry in kept:
        listed.files += 1
        listed.bytes += entry.size
        reason = reason_of(entry, settings) or (None if entry.size else Reason.EMPTY)
        if entry.key in sidecars:
            reason = reason or Reason.SIDECAR
        if reason:
            listed.skipped[reason] += 1
        elif entry.key in held:
            listed.unchanged += 1
        elif by_name.of(by_name.with_stated_type(entry.path, entry.type))[0].type not in AS_WRITTEN:
            listed.uncounted += 1
            listed.uncounted_bytes += entry.size
        else:
            listed.counted += 1
            listed.counted_bytes += entry.size
            _offer(listed, entry, random)


def _offer(listed: _ListingTally, entry: SourceEntry, random: Random) -> None:
    """Take a file into the sample, in the place of another one if that is full."""
    if len(listed.sample) < SAMPLE_FILES:
        listed.sample.append(entry)
    elif (place := random.randrange(listed.counted)) < SAMPLE_FILES:
        listed.sample[place] = entry


def _count(sampled: _Sampled, sample: Sequence[SourceEntry]) -> tuple[list[int], list[_TokenCounts], Counter[str]]:
    """Read the sample. Returns the bytes of the files that were read, their sizes, and why some have none."""
    read: list[int] = []
    sizes: list[_TokenCounts] = []
    skipped: Counter[str] = Counter()
    deadline = time.monotonic() + SAMPLE_SECONDS
    for entry in sample:
        if read and (time.monotonic() > deadline or sum(read) > SAMPLE_BYTES):
            break
        try:
            size = _size(sampled, entry)
        except FileError as error:
            skipped[error.reason] += 1
            size = _TokenCounts()
        read.append(entry.size)
        sizes.append(size)
    return read, sizes, skipped


def _size(sampled: _Sampled, entry: SourceEntry) -> _TokenCounts:
    """The tokens and chunks of one file. Raises `FileError` if it would not be indexed."""
    settings = sampled.settings
    content = sampled.source.read(entry.key, settings.max_file_bytes, entry.stamp)
    name = by_name.with_stated_type(entry.path, content.type)
    found = sample_of(sampled.helpers, content.data, name=name, keep=settings.keep, characters=SAMPLE_CHARACTERS)
    text, share = embedded(found.type, found.text), len(found.text) / found.characters
    if settings.bounded and not settings.embeds(round(len(cl100k().starts(text)) / share)):
        return _TokenCounts()
    tokens, chunks = len(sampled.tokenizer.starts(text)) / share, settings.chunks
    in_tokens = 1.0 if chunks.unit == "tokens" else tokens / found.characters
    most = tokens * _MAX_CUT.get(found.type, _MAX_CUT_OTHERWISE)
    chunk = min(chunks.size * in_tokens, settings.embedder.max_input_tokens)
    if found.type != "code":
        return _TokenCounts(tokens, most, 0, chunk)
    limit = settings.embedder.max_input_tokens
    room = min(_HEADER_ROOM, limit // 4)
    chunk = min(chunk, limit - room)
    stem = by_name.embedded_stem(entry.path, found.type, file_stems=settings.file_stems)
    of_name = len(sampled.tokenizer.starts(stem)) + SEPARATOR_TOKENS if stem else 0
    return _TokenCounts(tokens, most, of_name + min(room, _HEADERS / chunk), chunk)


def _by_granularity(
    listed: _ListingTally, read: Sequence[int], sizes: Sequence[_TokenCounts], model: PricedModel, dimensions: int
) -> dict[Granularity, CutEstimate]:
    """The cost and the stored bytes of a run, for each granularity."""
    chunk_tokens = sum(size.chunk for size in sizes) / max(len(sizes), 1) or 1.0
    text, most = (_total([size[part] for size in sizes], read, listed) for part in range(2))
    found: dict[Granularity, CutEstimate] = {}
    for granularity, (least, usual) in _CUT.items():
        own = Range(low=text.low * least, expected=text.expected * usual, high=most.high)
        usual_chunk = _USUAL_CHUNK[granularity]
        repeated = [size.repeated * size.tokens / usual_chunk(size.chunk) for size in sizes]
        whole = [size.most_tokens + more / _MIN_CHUNK for size, more in zip(sizes, repeated, strict=True)]
        tokens = Range(
            low=own.low,
            expected=own.expected + _total(repeated, read, listed).expected,
            high=_total(whole, read, listed).high,
        )
        found[granularity] = _cut(granularity, own, tokens, chunk_tokens, listed.counted, model, dimensions)
    return found


def _total(values: Sequence[float], read: Sequence[int], listed: _ListingTally) -> Range:
    """The sum over all counted files, by the ratio of the sample's values to its bytes."""
    if not sum(read):
        return Range(expected=0, low=0, high=_MAX_PER_BYTE * listed.counted_bytes)
    ratio = sum(values) / sum(read)
    total, number = ratio * listed.counted_bytes, len(values)
    if number == listed.counted:
        return Range(expected=total, low=total, high=total)
    if number < 2:  # noqa: PLR2004 - one file says nothing about the spread
        return Range(expected=total, low=0, high=_MAX_PER_BYTE * listed.counted_bytes)
    variance = sum((value - ratio * size) ** 2 for value, size in zip(values, read, strict=True)) / (number - 1)
    share_left = 1 - number / listed.counted
    error = _DEVIATIONS * listed.counted * math.sqrt(share_left * variance / number)
    return Range(expected=total, low=max(total - error, sum(values)), high=total + error)


def _cut(
    granularity: Granularity,
    own: Range,
    tokens: Range,
    chunk_tokens: float,
    files: int,
    model: PricedModel,
    dimensions: int,
) -> CutEstimate:
    """The cost and the stored bytes of a run. Its chunks have their `own` tokens, and with those in front `tokens`.

    A file has at least one chunk.
    """
    usual = _USUAL_CHUNK[granularity](chunk_tokens)
    chunks = Range(
        low=_chunks(own.low, chunk_tokens, files),
        expected=_chunks(own.expected, usual, files),
        high=_chunks(own.high, usual * _MIN_CHUNK, files),
    )
    price = None if model.price is None else model.price / 1_000_000
    return CutEstimate(
        chunks=chunks,
        vector_bytes=_each(chunks, lambda number: number * dimensions * _DIMENSION_BYTES),
        tokens=_each(tokens, round),
        requests=Range(
            low=_requests(tokens.low, chunks.low, model),
            expected=_requests(tokens.expected, chunks.expected, model),
            high=_requests(tokens.high, chunks.high, model),
        ),
        cost=None if price is None else _each(tokens, lambda number: round(number * price, 6)),
    )


def _chunks(tokens: float, chunk_tokens: float, files: int) -> int:
    return math.ceil(max(tokens / chunk_tokens, files)) if tokens else 0


def _requests(tokens: float, chunks: float, model: PricedModel) -> int:
    """Full requests, by whichever limit is reached first."""
    return math.ceil(max(tokens / model.max_request_tokens, chunks / model.max_inputs))


def _each(numbers: Range, change: Callable[[float], float]) -> Range:
    return Range(expected=change(numbers.expected), low=change(numbers.low), high=change(numbers.high))


def _notes(listed: _ListingTally) -> list[str]:
    notes = [
        "No file was cut into chunks to count them, which the ranges allow for.",
        "Texts that were embedded before cost nothing, but are counted here.",
    ]
    if listed.uncounted:
        notes.append(
            "Files that are missing from tokens, requests and cost, because only workers extract their text: "
            f"{listed.uncounted:,}."
        )
    if listed.slow:
        notes.append(
            "Archives and mails whose files are missing from all numbers, because they were not opened in time: "
            f"{listed.slow:,}."
        )
    if not listed.complete:
        notes.append(
            f"Listing took longer than {LIST_SECONDS:.0f} s: all numbers are of the part that was listed until then."
        )
    return notes
