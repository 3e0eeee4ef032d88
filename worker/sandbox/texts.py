"""Requests of the API and sources to helpers about tenants' texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from schemas.errors import FileError, NotFound
from schemas.reason import Reason
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.protocol import Bounds

#: Seconds of processor time of any request, and more for each byte. Decoding takes a hundredth of that.
_SECONDS = 1.0
_SECONDS_PER_BYTE = 1e-7
#: Seconds for each byte of JSON that is written again, which is ten times slower.
_JSON_SECONDS_PER_BYTE = 3e-6
#: Maximum bytes of an answer's head.
_HEAD_BYTES = 1 << 16
#: Maximum files and bytes of one request. A request takes longer than decoding a small text.
BATCH_FILES = 32
BATCH_BYTES = 1 << 20
#: Maximum bytes of a UTF-8 text for each byte of another encoding.
_GROWTH = 2
_SLOW = "Reading the file takes too long; split it."
_LARGE = "Reading the file takes too much memory; split it."

File = TypeVar("File")


class Sample(NamedTuple):
    """The beginning of a file's text, the number of its characters, and the type of the file."""

    text: str
    characters: int
    type: str


def unsuspected(_: object, __: bytes) -> None:
    """Return None: no file is checked for secrets."""


def utf8_texts(
    helpers: ProjectHelpers,
    contents: Iterable[tuple[File, bytes | None]],
    suspect: Callable[[File, bytes], str | None] = unsuspected,
) -> Iterator[tuple[File, bytes | None]]:
    """Yield each file with its text as UTF-8 without its byte order mark, in order.

    The text is None if there is no content, if it has a NUL, or if it is neither UTF-8 nor UTF-16 with a mark. It is
    also None if the file is only a secret: `suspect` returns the name of a file that may be one. An error of `contents`
    is raised after the texts before it. Raises `SourceBusy`.
    """
    batch = list[tuple[File, bytes | None]]()
    try:
        for content in contents:
            batch.append(content)
            if len(batch) >= BATCH_FILES or sum(len(data or b"") for _, data in batch) >= BATCH_BYTES:
                ready, batch = batch, []
                yield from _decode(helpers, ready, suspect)
    except Exception:
        yield from _decode(helpers, batch, suspect)
        raise
    yield from _decode(helpers, batch, suspect)


def _decode(
    helpers: ProjectHelpers,
    batch: Sequence[tuple[File, bytes | None]],
    suspect: Callable[[File, bytes], str | None],
) -> Iterator[tuple[File, bytes | None]]:
    """Yield each file with its text. ASCII needs no helper, because it is UTF-8 already."""
    named = [(file, data, suspect(file, data) if data else None) for file, data in batch]
    texts = iter(_ask(helpers, [(name, data) for _, data, name in named if data and not _is_plain(name, data)]))
    for file, data, name in named:
        if data and not _is_plain(name, data):
            yield file, next(texts)
        else:
            yield file, None if data is None or b"\0" in data else data


def _is_plain(name: str | None, data: bytes) -> bool:
    return name is None and data.isascii()


def _ask(helpers: ProjectHelpers, asked: Sequence[tuple[str | None, bytes]]) -> Sequence[bytes | None]:
    if not asked:
        return ()
    sizes = [len(data) for _, data in asked]
    head = {"operation": "texts", "sizes": sizes, "names": [name for name, _ in asked]}
    bounds = _bounds(helpers, sum(sizes), _GROWTH * sum(sizes))
    try:
        answer = helpers.ask(head, b"".join(data for _, data in asked), bounds)
        return _pieces(answer.payload, answer.head["sizes"], len(asked))
    except (FileError, KeyError, TypeError):
        # one text of the batch may be to blame
        return [None] if len(asked) == 1 else [text for one in asked for text in _ask(helpers, [one])]


def _pieces(joined: bytes | bytearray, sizes: Sequence[int | None], number: int) -> Sequence[bytes | None]:
    """Return the texts of these sizes. Raises `TypeError` if their number or type is wrong."""
    pieces, start = list[bytes | None](), 0
    for size in sizes:
        pieces.append(None if size is None else bytes(joined[start : start + size]))
        start += size or 0
    if len(pieces) != number:
        raise TypeError
    return pieces


def value_span(helpers: ProjectHelpers, document: bytes, pointer: str) -> tuple[int, int]:
    """Return the start and end, in characters, of the value at a JSON pointer. Raises `NotFound` and `SourceBusy`."""
    head = {"operation": "value", "pointer": pointer}
    bounds = _bounds(helpers, len(document), 0, _JSON_SECONDS_PER_BYTE)
    try:
        found = helpers.ask(head, document, bounds).head
    except FileError as error:
        raise NotFound(f"The file cannot be searched for a JSON pointer ({error.reason}); request lines.") from error
    if isinstance(found.get("start"), int) and isinstance(found.get("end"), int):
        return found["start"], found["end"]
    raise NotFound(str(found.get("absent")))


def sample_of(
    helpers: ProjectHelpers,
    data: bytes,
    *,
    name: str,
    keep: Collection[str],
    characters: int,
    document_seconds: float | None = None,
) -> Sample:
    """Return the sample of a file before indexing. Raises `FileError` if it would not be indexed, and `SourceBusy`.

    A document, such as a PDF, is `binary` unless there are seconds of processor time to parse it.
    """
    documents = document_seconds is not None
    head = {"operation": "sample", "name": name, "keep": [*keep], "characters": characters, "documents": documents}
    # the replacement of an invalid byte has three bytes
    bounds = _bounds(helpers, len(data), 3 * max(len(data), characters))
    if document_seconds is not None:
        bounds = replace(bounds, seconds=min(bounds.seconds, document_seconds))
    answer = helpers.ask(head, data, bounds)
    try:
        return Sample(answer.payload.decode(), int(answer.head["characters"]), str(answer.head["type"]))
    except (KeyError, TypeError, ValueError):
        raise FileError(Reason.CRASHED) from None


def json_text(helpers: ProjectHelpers, text: str, limit: int) -> bytes:
    """Return the text in which inline JSON is indexed and shown. Raises `FileError` and `SourceBusy`."""
    data = text.encode(errors="surrogatepass")
    head = {"operation": "json", "limit": limit}
    return bytes(helpers.ask(head, data, _bounds(helpers, len(data), limit, _JSON_SECONDS_PER_BYTE)).payload)


def _bounds(
    helpers: ProjectHelpers, size: int, payload_bytes: int, seconds_per_byte: float = _SECONDS_PER_BYTE
) -> Bounds:
    seconds = helpers.at_most(_SECONDS + seconds_per_byte * size)
    pool = helpers.pool
    return Bounds(seconds, pool.memory_bytes, payload_bytes, pool.patience, _SLOW, _LARGE, _HEAD_BYTES)
