"""`foldex mcp`: the tools of agents over standard input and output. Nothing else may be written to standard output."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from api.agents import server
from api.agents.access import CallRefused, ServiceAccess
from api.agents.fitting import counted
from api.agents.folders import is_name, real
from api.cli.invocation import Invocation, VerbFailed
from api.cli.service.connection import (
    PATIENCE_SECONDS,
    address,
    always,
    is_loopback,
    retries,
    sentence,
    skip_the_program_of_httpx,
)
from api.cli.service.folder_tools import allow_folder
from api.cli.service.tool_lookup import indexable_place, path_of
from foldex_client import AsyncFoldex, FoldexError
from foldex_client.errors import SourceRefused

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCError

BYTE_ORDER_MARK = "\ufeff"


def serve(invocation: Invocation, folders: Sequence[str], *, allow_delete: bool) -> None:
    """Serve one agent until it closes standard input. Raises `VerbFailed` for a folder that cannot be indexed."""
    for folder in folders:
        indexable_place(folder, is_here=invocation.server is None or is_loopback(invocation.server))
    skip_the_program_of_httpx()
    asyncio.run(_serve(_Stack(invocation, folders), allow_delete=allow_delete))


async def _serve(stack: _Stack, *, allow_delete: bool) -> None:
    from mcp.server.stdio import stdio_server

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end)
    served = server.make(stack.access, allow_delete=allow_delete)
    # a stack that has to start, and the table of tokens, take seconds: the agent need not wait for them to begin
    ahead = asyncio.gather(stack.reach(), asyncio.to_thread(counted, "x"), return_exceptions=True)
    async with stdio_server() as (incoming, outgoing), readable(incoming, outgoing) as messages:
        await served.run(messages, outgoing, served.create_initialization_options())
    ahead.cancel()
    _end()


@asynccontextmanager
async def readable(
    incoming: ReadStream[SessionMessage | Exception], outgoing: WriteStream[SessionMessage]
) -> AsyncIterator[ReadStream[SessionMessage | Exception]]:
    """The messages of an agent. A blank line is none; anything else gets an error, as the library leaves it unanswered.

    Some shells put a byte order mark before what they pipe.
    """
    from anyio import create_memory_object_stream
    from mcp.shared.message import SessionMessage

    sender, messages = create_memory_object_stream[SessionMessage | Exception]()

    async def sort() -> None:
        async with sender:
            async for item in incoming:
                found = item if isinstance(item, SessionMessage) else _unmarked(item)
                if isinstance(found, SessionMessage):
                    await sender.send(found)
                elif found is not None:
                    await outgoing.send(SessionMessage(_refusal(found)))

    sorting = asyncio.create_task(sort())
    try:
        yield messages
    finally:
        sorting.cancel()


def _unmarked(error: Exception) -> SessionMessage | Exception | None:
    """Recover a line that the library could not read: a message after a byte order mark, or nothing."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter
    from pydantic import ValidationError

    line = error.errors()[0]["input"] if isinstance(error, ValidationError) else None
    if not isinstance(line, str):
        return error
    text = line.strip().removeprefix(BYTE_ORDER_MARK).strip()
    if not text:
        return None
    if text == line.strip():
        return error
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValidationError as other:
        return other


def _refusal(error: Exception) -> JSONRPCError:
    from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
    from pydantic import ValidationError

    if isinstance(error, ValidationError) and error.errors()[0]["type"] != "json_invalid":
        told = ErrorData(code=INVALID_REQUEST, message="The line is not a JSON-RPC 2.0 message; send one per line.")
    else:
        told = ErrorData(code=PARSE_ERROR, message="The line is not valid JSON; send one whole message per line.")
    return JSONRPCError(jsonrpc="2.0", id=None, error=told)


def _end() -> None:
    """End at once: a thread that reads standard input would keep the process alive."""
    sys.stderr.flush()
    os._exit(0)


class _Stack:
    """The service, wherever it is at the moment: the embedded stack may stop, and start at another port."""

    def __init__(self, invocation: Invocation, folders: Sequence[str]) -> None:
        self._invocation, self._folders = invocation, folders
        self._lock = asyncio.Lock()
        self._foldex: AsyncFoldex | None = None
        self._url = ""
        self._home: Path | None = None

    async def reach(self) -> AsyncFoldex:
        """A client of the service, which is started if it does not run. Raises `VerbFailed`."""
        async with self._lock:
            url, home = await asyncio.to_thread(address, self._invocation, always)
            if self._foldex is None or url != self._url:
                if home is not None:
                    for folder in self._folders:
                        allow_folder(home, path_of(folder))
                await self._connect(url, home)
            assert self._foldex is not None  # noqa: S101 - `_connect` has set it
            return self._foldex

    async def _connect(self, url: str, home: Path | None) -> None:
        if self._foldex is not None:
            await self._foldex.aclose()
        try:
            self._foldex = AsyncFoldex(
                url,
                self._invocation.key,
                principals=self._invocation.principals,
                retries=retries(home),
                deadline=PATIENCE_SECONDS,
                trust_env=not is_loopback(url),
            )
        except ValueError as error:
            raise VerbFailed(str(error).replace("base_url", "--server").replace("api_key", "--key")) from None
        self._url, self._home = url, home

    @asynccontextmanager
    async def access(self, _: server.Context) -> AsyncIterator[ServiceAccess]:
        """See `server.Open`."""
        try:
            foldex = await self.reach()
        except VerbFailed as error:
            raise CallRefused(error.message) from error
        is_here = is_loopback(self._url)
        yield ServiceAccess(
            foldex=foldex,
            project=self._invocation.project,
            path_of=_path_of if is_here else str,
            resolved=real if is_here else str,
            here=str(Path.cwd()) if is_here else None,
            sentence=partial(_sentence, url=self._url, home=self._home, has_key=self._invocation.key is not None),
            has_key=self._invocation.key is not None,
        )


def _path_of(word: str) -> str:
    """The path of a word; "" if it can only be a name. Raises `CallRefused` for the address of no bucket."""
    try:
        path = path_of(word)
    except VerbFailed as error:
        raise CallRefused(error.message) from error
    return "" if is_name(word) and not os.path.exists(path) else path  # noqa: PTH110 - strings as they are


def _sentence(error: FoldexError, url: str, home: Path | None, *, has_key: bool) -> str:
    if isinstance(error, SourceRefused) and is_loopback(url):
        return f"{error.detail} Its owner permits it with `foldex index FOLDER`, or with `foldex mcp FOLDER`."
    return sentence(error, url, home, has_key=has_key)
