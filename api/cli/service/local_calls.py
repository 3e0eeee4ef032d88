"""One attempt of a call over the standard library, on this machine alone.

To load httpx and pydantic takes 0.2 s, the search itself 0.02 s. What is not answered at once is left to the client
library, which knows retries and errors.
"""

from __future__ import annotations

import json
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

#: The first status that is not a success.
_REDIRECT = 300


#: A JSON object that the service reads or wrote: its models check it.
Json = dict[str, Any]


class JsonRecord(Json):
    """A JSON object whose fields are attributes; None for those that it does not have."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


class LocalCalls:
    """Calls to the service at `url`, with a connection that stays open. `timeout` is in seconds."""

    def __init__(self, url: str, key: str | None, timeout: float) -> None:
        self._key = key
        self._connection: HTTPConnection | None = None
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.scheme == "http" and parts.path in {"", "/"} and parts.netloc.count("@") == 0:
                self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)

    def call(self, method: str, path: str, body: Json | None = None) -> JsonRecord | None:
        """The answer; None if there is none, or if it is an error. The call may have been carried out.

        Raises `TimeoutError` after `timeout` seconds without a byte.
        """
        if self._connection is None or self._key == "":
            return None
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            data = response.read()
            answer = json.loads(data, object_hook=JsonRecord) if response.status < _REDIRECT else None
        except TimeoutError:
            self._connection.close()
            raise
        except (OSError, HTTPException, ValueError):
            self._connection.close()
            return None
        return answer if isinstance(answer, JsonRecord) else None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
