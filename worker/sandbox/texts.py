"""What the API and sources ask helpers about texts that tenants wrote."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from schemas.errors import FileError, NotFound
from schemas.status import Reason
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.protocol import Bounds

#: Seconds of processor time of any request, and more for each byte. Decoding takes a hundredth of it.
_SECONDS = 1.0
_SECONDS_PER_BYTE = 1e-7
#: Seconds for each byte of JSON that is written out again, which is ten times slower.
_JSON_SECONDS_PER_BYTE = 3e-6
#: Most bytes of an answer's head.
_HEAD_BYTES = 1 << 16
#: Most bytes of a UTF-8 text for each byte of another encoding.
_GROWTH = 2
_SLOW = "Reading the file takes too long; split it."
_LARGE = "Reading the file takes too much memory; split it."


class Sample(NamedTuple):
    """The beginning of a file's text, the number of its characters, and the type of the file."""

    text: str
    characters: int
    type: str


def utf8_text(helpers: ProjectHelpers, data: bytes) -> bytes | None:
    """Text as UTF-8 without its mark; None if it has a NUL, or is neither UTF-8 nor UTF-16 with a mark.

    Raises `SourceBusy`. ASCII is what it is, and needs no helper.
    """
    if data.isascii():
        return None if b"\0" in data else data
    try:
        answer = helpers.ask({"operation": "text"}, data, _bounds(helpers, len(data), _GROWTH * len(data)))
    except FileError:
        return None
    return bytes(answer.payload)


def value_span(helpers: ProjectHelpers, document: bytes, pointer: str) -> tuple[int, int]:
    """Start and end, in characters, of the value at a pointer in JSON. Raises `NotFound` and `SourceBusy`."""
    head = {"operation": "value", "pointer": pointer}
    bounds = _bounds(helpers, len(document), 0, _JSON_SECONDS_PER_BYTE)
    try:
        found = helpers.ask(head, document, bounds).head
    except FileError as error:
        raise NotFound(f"The file cannot be searched for a JSON pointer ({error.reason}); request lines.") from error
    if isinstance(found.get("start"), int) and isinstance(found.get("end"), int):
        return found["start"], found["end"]
    raise NotFound(str(found.get("absent")))


def sample_of(helpers: ProjectHelpers, data: bytes, *, name: str, keep: Collection[str], characters: int) -> Sample:
    """What an estimate reads of a file. Raises `FileError` if it would not be indexed, and `SourceBusy`."""
    head = {"operation": "sample", "name": name, "keep": [*keep], "characters": characters}
    # a character that stands for a byte that is none has three bytes
    answer = helpers.ask(head, data, _bounds(helpers, len(data), 3 * len(data)))
    try:
        return Sample(answer.payload.decode(), int(answer.head["characters"]), str(answer.head["type"]))
    except (KeyError, TypeError, ValueError):
        raise FileError(Reason.CRASHED) from None


def json_text(helpers: ProjectHelpers, text: str, limit: int) -> bytes:
    """The text in which inline JSON is indexed and shown. Raises `FileError` and `SourceBusy`."""
    data = text.encode(errors="surrogatepass")
    head = {"operation": "json", "limit": limit}
    return bytes(helpers.ask(head, data, _bounds(helpers, len(data), limit, _JSON_SECONDS_PER_BYTE)).payload)


def _bounds(
    helpers: ProjectHelpers, size: int, payload_bytes: int, seconds_per_byte: float = _SECONDS_PER_BYTE
) -> Bounds:
    seconds = helpers.at_most(_SECONDS + seconds_per_byte * size)
    pool = helpers.pool
    return Bounds(seconds, pool.memory_bytes, payload_bytes, pool.patience, _SLOW, _LARGE, _HEAD_BYTES)
