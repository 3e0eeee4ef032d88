"""Answers a node with its content. The content is sent as it is stored, piece by piece: nothing parses it."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from tempfile import TemporaryFile
from typing import IO, Any

import structlog
from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic_core import from_json, to_json

from api.http.shares import LARGE_TEXTS
from schemas.content.acl import Sight
from schemas.errors import BodiesBusy, FileError, SourceError, SourceUnavailable
from worker.machine.sharing.slots import Slots
from worker.objects.object_store import ObjectReader
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.content.nodes import NodeRow

#: Bytes that are read, held in memory and sent at a time.
PIECE = 1 << 18
#: Bytes of an uploaded JSON that is parsed to see whether it is well-formed. Postgres judges a larger one, as parsing
#: would take twenty times its size.
MAX_PARSED_BYTES = 1 << 16
#: Bytes of an uploaded JSON that is answered as a value. A larger one is answered as text.
MAX_JSON_BYTES = 64 << 20

#: Large JSON that a process judges at the same time, and that of one project. Each takes some four times its size.
MAX_JUDGED, MAX_JUDGED_OF_ONE = 2, 1
#: Seconds that a further one waits.
JUDGE_WAIT_SECONDS = 3.0

_judging = Slots(MAX_JUDGED, MAX_JUDGED_OF_ONE)
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]")

log = structlog.get_logger()


class BrokenOffError(Exception):
    """The store failed after the answer had begun, so only the end of the connection can tell the caller."""

    def __init__(self, reason: SourceError) -> None:
        super().__init__(reason.message)
        self.reason = reason


def answer_stored(resources: Resources, row: NodeRow, sight: Sight) -> Response:
    """The node with its stored content, unless that is withheld. Raises `SourceError`."""
    if row.withheld:
        return answer(row, nothing())
    with room_for(row):
        row = with_json(resources, row, sight)
        content = nothing() if row.withheld else _content(resources, row)
    return answer(row, content)


def nothing() -> Iterator[bytes]:
    """No content, in JSON."""
    return iter([b"null"])


def answer(row: NodeRow, content: Iterator[bytes], status: int = 200) -> Response:
    """The node with this content in JSON."""
    head = row.model_dump_json(exclude={"content"}).encode()
    pieces = chain([head[:-1] + b',"content":'], content, [b"}"])
    try:
        first = list(islice(pieces, 3))
    except BrokenOffError as error:
        raise error.reason from error
    if len(first[1]) < PIECE and first[-1] == b"}":
        return Response(b"".join(first), status, media_type="application/json")
    return StreamingResponse(chain(first, pieces), status, media_type="application/json")


def sent(value: Any, json_text: str | None) -> Iterator[bytes]:
    """The content that a caller sent: JSON that was written already, or text."""
    return spool(to_json(value) if json_text is None else json_text.encode())


def missing_content(row: NodeRow) -> SourceError:
    """The error for a node whose object the store does not have."""
    return SourceError(f"The content of node {row.id!r} is missing from the object store; upload it again.")


def _content(resources: Resources, row: NodeRow) -> Iterator[bytes]:
    """A node's content in JSON: a value, also for well-formed uploaded JSON; otherwise text."""
    key = row.object_key
    if key is None:
        return nothing() if row.json_text is None else spool(row.json_text.encode())
    is_value = row.type == "json" and row.size <= MAX_JSON_BYTES and _is_value(resources, row, key)
    pieces = read(_open(resources, row, key), row.id)
    return pieces if is_value else _as_text(pieces)


def _open(resources: Resources, row: NodeRow, key: str) -> ObjectReader:
    try:
        return resources.objects.reader(key)
    except FileError as error:
        raise missing_content(row) from error


def read(reader: ObjectReader, node_id: str) -> Iterator[bytes]:
    """A content piece by piece. If the store fails, it ends by an error that closes the connection."""
    unsent = reader.size
    try:
        while unsent > 0:
            piece = reader.read(PIECE)
            if not piece:
                raise SourceUnavailable("The stored content ends too early; upload it again.")
            unsent -= len(piece)
            yield piece
    except SourceError as error:
        log.warning("a download broke off", node=node_id, unsent=unsent, code=error.code, reason=error.message)
        raise BrokenOffError(error) from None
    finally:
        reader.close()


def _as_text(pieces: Iterator[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield b'"'
    for piece in pieces:
        yield to_json(decoder.decode(piece))[1:-1]
    yield to_json(decoder.decode(b"", final=True))[1:-1] + b'"'


def room_for(row: NodeRow) -> AbstractContextManager[None]:
    """Hold room for the text of a node's inline JSON. Raises `ProjectBusy` or `ServerBusy`."""
    is_large = row.object_key is None and row.size > MAX_PARSED_BYTES
    return LARGE_TEXTS.hold(row.project_id) if is_large else nullcontext()


def with_json(resources: Resources, row: NodeRow, sight: Sight) -> NodeRow:
    """The node with its inline JSON as text, both as they are now."""
    return nodes.with_json(resources.pool, row.project_id, row.id, sight) if row.object_key is None else row


def spool(data: bytes) -> Iterator[bytes]:
    """A content piece by piece. On its way to a slow reader a large one is on disk, not in memory."""
    return iter([data]) if len(data) < PIECE else _pieces(store_aside(data))


def store_aside(data: bytes) -> IO[bytes]:
    """A file without a name, which ends when it is closed."""
    file = TemporaryFile()  # noqa: SIM115 - its reader closes it
    file.write(data)
    file.seek(0)
    return file


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE):
            yield piece


def _is_value(resources: Resources, row: NodeRow, key: str) -> bool:
    """Whether an uploaded content is JSON that every client can read."""
    if row.size <= MAX_PARSED_BYTES:
        return _is_readable(_data(resources, row, key))
    busy = BodiesBusy("Too many large JSON nodes are being read; try again, or download the content.")
    with _judging.within(JUDGE_WAIT_SECONDS, busy, row.project_id):
        data = _data(resources, row, key)
        return not _has_surrogate(data) and nodes.is_json(resources.pool, data)


def _data(resources: Resources, row: NodeRow, key: str) -> bytes:
    try:
        return resources.objects.get(key, MAX_JSON_BYTES)
    except FileError as error:
        raise missing_content(row) from error


def _has_surrogate(data: bytes) -> bool:
    """Whether an escaped half of a surrogate pair stands alone."""
    if b"\\u" not in data:
        return False
    unescaped = data.replace(b"\\\\", b"")
    # lists of them would fill the memory
    return sum(1 for _ in _ESCAPED.finditer(unescaped)) != 2 * sum(1 for _ in _PAIR.finditer(unescaped))


def _is_readable(data: bytes) -> bool:
    try:
        # the standard library writes no infinite number then, which JSON does not know
        json.dumps(from_json(data, allow_inf_nan=False), allow_nan=False)
    except ValueError:
        return False
    return True
