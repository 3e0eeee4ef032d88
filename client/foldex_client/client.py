"""The two clients."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import httpx

from foldex_client.both import Async, Blocking
from foldex_client.calls import Client
from foldex_client.keys import Keys
from foldex_client.sending import AsyncLink, BlockingLink, Session, headers, origin
from foldex_client.trees import Trees

if TYPE_CHECKING:
    from typing_extensions import Self

#: Seconds without a byte after which an attempt fails. Searches may wait for models, and for a refresh of the index.
TIMEOUT_SECONDS = 60.0
#: Further attempts of a call.
RETRIES = 5
#: Seconds that all attempts of a call may take together.
DEADLINE_SECONDS = 120.0


class Foldex(Client[Blocking]):
    """A client that blocks. Threads may share it.

    `api_key` is sent to `base_url` alone: redirects are not followed. `transport` and `trust_env` are those of httpx.
    The client acts for `principals`, if the key has the scope `impersonate`. An empty list names nobody.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        principals: Collection[str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        deadline: float = DEADLINE_SECONDS,
        trust_env: bool = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        place, sent = origin(base_url), headers(api_key, principals)
        self._http = httpx.Client(headers=sent, trust_env=trust_env, transport=transport)
        super().__init__(Session(BlockingLink(self._http), place, timeout, retries, deadline))
        self.trees: Trees[Blocking] = Trees(self._session)
        self.keys: Keys[Blocking] = Keys(self._session)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncFoldex(Client[Async]):
    """The same over asyncio: calls are awaited, lists are iterated with `async for`."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        principals: Collection[str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        deadline: float = DEADLINE_SECONDS,
        trust_env: bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        place, sent = origin(base_url), headers(api_key, principals)
        self._http = httpx.AsyncClient(headers=sent, trust_env=trust_env, transport=transport)
        super().__init__(Session(AsyncLink(self._http), place, timeout, retries, deadline))
        self.trees: Trees[Async] = Trees(self._session)
        self.keys: Keys[Async] = Keys(self._session)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
