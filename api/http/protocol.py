"""The HTTP protocol of the API: uvicorn's, bounded in time and memory.

No caller needs a key for what happens here. So all that a connection may hold is bounded for each and for all.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Collection
from typing import Any, ClassVar

from fastapi.responses import JSONResponse
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from api.http import problems, request_log
from api.identity.principals import HEADER
from schemas.errors import FoldexError, HeadersTooLarge, Invalid, TokenInvalid, TooManyConnections, UrlTooLong
from worker.machine.memory.api_memory import ApiMemory

#: Seconds within which a request's headers must arrive.
HEADER_SECONDS = 20.0
#: Seconds within which a slow client must read `STALLED_BYTES` of its answer, or the rest of it.
STALLED_SECONDS = 20.0
STALLED_BYTES = 1 << 16
#: Bytes of answers that a process buffers for slow clients. Above them the client that is slow for longest is dropped.
MAX_UNSENT_BYTES = ApiMemory().unsent_answers
#: Bytes of a request's line and headers, and of the trailers after its body. Servers and proxies accept 8 to 64 KiB.
MAX_HEAD_BYTES = 1 << 16
#: Bytes of a URL: the parser takes no more.
MAX_URL_BYTES = (1 << 16) - 1
#: Bytes before a URL, which do not count: more than the longest method has.
METHOD_BYTES = 32
#: Header fields of a request. Browsers send some 20, and proxies add a few.
MAX_FIELDS = 100
#: Bytes from which one field is named as the cause of headers that are too large.
LONG_FIELD_BYTES = MAX_HEAD_BYTES // 2
#: The longest beginning of a line that tells which field it is.
_NAME_BYTES = 32
#: Bytes that the parser takes at once. Unfinished headers are counted with this precision.
PIECE_BYTES = 1 << 14
#: Seconds of work for one connection before all others get their turn.
TURN_SECONDS = 0.005
#: Chunks of a body that have fewer than `SMALL_BYTES`. Each takes some microseconds, and most clients send larger ones.
MAX_SMALL_CHUNKS = 50_000
SMALL_BYTES = 512
#: Requests that a connection may send before the first of them is answered. Browsers wait for each answer.
MAX_PIPELINED = 16
#: Seconds for which the rest of a refused request is read and discarded: a client that still sends when its connection
#: is closed would lose the answer.
DISCARD_SECONDS = 5.0


class Receiving:
    """Limits connections and bytes of a process before requests begin."""

    def __init__(self, max_connections: int, max_bytes: int) -> None:
        self.max_connections = max_connections
        self._max_bytes = max_bytes
        #: Connections that wait for a request, or for the rest of its headers, longest first.
        self.waiting: dict[TimedProtocol, None] = {}
        #: At least the bytes that are held.
        self._estimate = 0

    def count_connection(self, connections: Collection[Any]) -> bool:
        """Whether there is room for the newest connection. Closes the one that has waited longest for a request."""
        if len(connections) <= self.max_connections:
            return True
        if not self.waiting:
            return False
        next(iter(self.waiting)).drop()
        return True

    def count_bytes(self, size: int, connections: Collection[Any]) -> None:
        """Note that some connection holds `size` bytes more. Closes the largest if all hold too much."""
        self._estimate += size
        if self._estimate <= self._max_bytes:
            return
        held = sorted(connections, key=lambda each: each.unfinished, reverse=True)
        self._estimate = sum(each.unfinished for each in held)
        # to sort again for each piece would take the processor
        most = self._max_bytes * 7 // 8 if self._estimate > self._max_bytes else self._max_bytes
        for each in held:
            if self._estimate <= most:
                break
            self._estimate -= each.unfinished
            each.drop()


class TimedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with bounds for clients that never complete headers or never read answers.

    Uvicorn itself waits forever and keeps all bytes in memory.
    """

    #: Bounds of all connections of this process.
    receiving: ClassVar[Receiving] = Receiving(ApiMemory().connections, ApiMemory().unfinished_headers)
    #: See `MAX_UNSENT_BYTES`; None for as many.
    max_unsent: ClassVar[int | None] = None
    #: Connections of slow clients, slow for longest first, and their unsent bytes at the last check.
    _behind: ClassVar[dict[TimedProtocol, int]] = {}
    _deadline: asyncio.TimerHandle | None = None
    _next_look: asyncio.TimerHandle | None = None
    #: Bytes of a head, of trailers or of a chunk's first line that the parser holds or has passed over.
    unfinished = 0
    #: The beginning of the line at hand within headers, and its bytes.
    _line, _line_bytes = b"", 0
    #: Whether the parser has come to another part of a request within the piece at hand.
    _has_moved = False
    #: Whether the headers of the request at hand are complete.
    _has_headers = False
    _head_bytes = _url_bytes = _fields = 0
    #: Small chunks of the body at hand, and the bytes of its latest chunk.
    _small_chunks = _chunk_bytes = 0
    _is_refused = False
    #: Bytes of an answered request that came since the last new deadline.
    _discarded = 0

    @classmethod
    def limit(cls, memory: ApiMemory) -> None:
        """Set the bounds of this process, whose connections may take half of the files that it may open."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        cls.receiving = Receiving(min(memory.connections, files // 2), memory.unfinished_headers)
        cls.max_unsent = memory.unsent_answers

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        if not self.receiving.count_connection(self.connections):
            self._refuse(TooManyConnections("Too many connections are open; close some, and try again shortly."))
            return
        self.receiving.waiting[self] = None
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        began = time.monotonic()
        for start in range(0, len(data), PIECE_BYTES):
            if self._is_refused or self.transport.is_closing():
                return
            self._take(data if len(data) <= PIECE_BYTES else data[start : start + PIECE_BYTES])
        if time.monotonic() - began > TURN_SECONDS:
            # the loop reads all that a client has sent in one turn
            self.transport.pause_reading()
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _take(self, piece: bytes) -> None:
        self._has_moved = False
        super().data_received(piece)
        if self._is_refused or self.transport.is_closing():
            return
        if not self._has_headers:
            self._note_line(piece)
        if not self._has_moved:
            self.unfinished += len(piece)
            if self.unfinished > MAX_HEAD_BYTES + METHOD_BYTES:
                self._refuse(_too_large(self._line.partition(b":")[0], self._line_bytes))
                return
            self.receiving.count_bytes(len(piece), self.connections)
        if self._deadline is None and not self._is_answering():
            # bytes that begin no request have ended the wait for one
            self._wait_for_headers()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP with a problem; uvicorn's own text has no reason."""
        error = sys.exception()
        # the parser hides an error of a callback behind one of its own
        cause = (error and error.__context__) or error
        self._refuse(cause if isinstance(cause, FoldexError) else problems.not_http(str(cause or msg)))

    def _refuse(self, reason: FoldexError | JSONResponse) -> None:
        """Answer that the request cannot be read, discard the rest, and close the connection."""
        self._is_refused = True
        self.unfinished = 0
        if self._is_answering():
            if self.pipeline or not self.cycle.more_body:
                # answer the earlier requests
                self.cycle.keep_alive = False
                return
            if self.cycle.response_started:
                self.transport.close()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        answer = problems.unread(reason) if isinstance(reason, FoldexError) else reason
        answer.headers.update(request_log.log_unread(answer.status_code))
        head = [STATUS_LINE[answer.status_code], *(b"%b: %b\r\n" % each for each in answer.raw_headers)]
        self.transport.write(b"".join([*head, b"connection: close\r\n\r\n", answer.body]))
        self.transport.write_eof()
        self._stop_waiting()
        # free its bytes now
        self.parser = self.headers = self.scope = None  # type: ignore[assignment]
        self._deadline = self.loop.call_later(DISCARD_SECONDS, self._give_up)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._behind[self] = self.transport.get_write_buffer_size()
        self._next_look = self.loop.call_later(STALLED_SECONDS, self._look_at_reader)
        most = MAX_UNSENT_BYTES if self.max_unsent is None else self.max_unsent
        # aborting a transport may pause another one, so iterate over a copy
        for protocol in list(self._behind):
            if sum(other.transport.get_write_buffer_size() for other in self._behind) <= most:
                break
            protocol.drop()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._stop_looking()
        super().resume_writing()

    def drop(self) -> None:
        """Close the connection without sending the rest."""
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        self._stop_waiting()
        self._stop_looking()
        self.receiving.waiting.pop(self, None)
        self.unfinished = 0

    def _look_at_reader(self) -> None:
        unsent_before, unsent = self._behind[self], self.transport.get_write_buffer_size()
        if unsent_before - unsent < STALLED_BYTES:
            self.drop()
            return
        self._behind[self] = unsent
        self._next_look = self.loop.call_later(STALLED_SECONDS, self._look_at_reader)

    def _stop_looking(self) -> None:
        self._behind.pop(self, None)
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None

    def on_message_begin(self) -> None:
        """See httptools."""
        self._move()
        self._has_headers = False
        self._head_bytes = self._url_bytes = self._fields = self._small_chunks = self._chunk_bytes = 0
        super().on_message_begin()
        if self._deadline is None:
            self._wait_for_headers()

    def on_url(self, url: bytes) -> None:
        """See httptools."""
        self._url_bytes += len(url)
        if self._url_bytes > MAX_URL_BYTES:
            raise UrlTooLong(
                f"The URL has more than {MAX_URL_BYTES:,} bytes; shorten it, or send what it holds in a body."
            )
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools. Trailers come here too, after the headers are complete: nothing here reads them."""
        self._count_head(len(name) + len(value) + len(b": \r\n"), name)
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise _too_large()
        if not self._has_headers:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """See httptools."""
        self._move()
        self._has_headers = True
        self._line, self._line_bytes = b"", 0
        self._stop_waiting()
        self.receiving.waiting.pop(self, None)
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests came before the first was answered; wait for each answer")
        if self.parser.should_upgrade() and _has_body(self.headers):
            # the parser assumes that the body belongs to another protocol
            raise ValueError("a request with a body cannot change the protocol; let the client use HTTP/1.1 only")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._move()
        self._chunk_bytes += len(body)
        if self.cycle.response_complete:
            self._discard(len(body))
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        """See httptools."""
        # the last one is empty
        self._small_chunks += 0 < self._chunk_bytes < SMALL_BYTES
        self._chunk_bytes = 0
        if self._small_chunks > MAX_SMALL_CHUNKS:
            raise ValueError(
                f"more than {MAX_SMALL_CHUNKS:,} chunks of the body have fewer than {SMALL_BYTES} bytes; send larger "
                "chunks"
            )

    def on_message_complete(self) -> None:
        """See httptools."""
        self._move()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See uvicorn."""
        if not self.pipeline and not self.transport.is_closing():
            self.receiving.waiting[self] = None
        super().on_response_complete()

    def _discard(self, size: int) -> None:
        """Pass over a body that came after its answer. A client that sends it steadily reads the answer afterwards."""
        self._discarded += size
        if self._deadline is not None and self._discarded >= STALLED_BYTES:
            self._discarded = 0
            self._stop_waiting()
            self._wait_for_headers()

    def _move(self) -> None:
        self._has_moved, self.unfinished = True, 0

    def _note_line(self, piece: bytes) -> None:
        """Note how the last line of a piece of the headers begins, and its bytes so far."""
        start = piece.rfind(b"\n") + 1
        if start:
            self._line, self._line_bytes = b"", 0
        self._line += piece[start : start + _NAME_BYTES - len(self._line)]
        self._line_bytes += len(piece) - start

    def _count_head(self, size: int, field: bytes = b"") -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise _too_large(b"" if self._has_headers else field, size)

    def _should_upgrade_to_ws(self) -> bool:
        return False

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: a client that asks for another protocol is answered in this one, as many expect."""

    def _wait_for_headers(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


def _too_large(field: bytes = b"", size: int = 0) -> FoldexError:
    """Why headers that are too large are refused. `field` is the one at hand, with `size` bytes or more."""
    limit = f"the URL and headers may have {MAX_HEAD_BYTES:,} bytes together"
    name = field.strip().lower() if size > LONG_FIELD_BYTES else b""
    if name == b"authorization":
        return TokenInvalid(f"The header Authorization is too long: {limit}; send a key or a shorter token.")
    if name == HEADER.lower().encode():
        return Invalid(f"The header {HEADER} is too long: {limit}; send fewer principals.")
    return HeadersTooLarge(
        f"The URL and headers have more than {MAX_HEAD_BYTES:,} bytes or {MAX_FIELDS} fields; send fewer, or shorter "
        "ones."
    )
