"""Embedding by OpenAI's API, or a compatible server, over plain HTTP.

It saves LiteLLM's import: two seconds, and 140 MB in each process that does not share them. It uses urllib3, because
httpx takes more processor time: `docs/explanation/figures.md` has the ratio.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import orjson

from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized
from worker.embed import answers
from worker.embed.endpoint import Endpoint

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPHeaderDict, PoolManager
    from urllib3.util import Url

PREFIX = "openai/"
#: Idle connections kept per address: more than a process sends requests, because urllib3 warns of each surplus one.
MAX_IDLE = 128
#: Maximum number of redirects of a request.
MAX_REDIRECTS = 10
#: Members of an answer that describe an error.
_OF_ERRORS = ("error", "errors", "message", "detail")
_DEFAULT_BASE = "https://api.openai.com/v1"


class OpenAIClient(Endpoint):
    """One model at one address. Thread-safe. Its process shares connections with other models, but not with a fork."""

    def rows(self, texts: Sequence[str], encoding: str) -> list[Any]:
        """Return the rows of the answer to one request. Raises any `EmbeddingError`."""
        import urllib3

        try:
            body = self._body(texts, encoding)
        except (TypeError, ValueError) as error:
            raise EmbeddingRefused(
                f"A text has characters that cannot be sent to {self.model}; remove them from it."
            ) from error
        try:
            answer = self._answer(body)
        except urllib3.exceptions.LocationParseError as error:
            raise EmbeddingUnauthorized(
                f"The address of {self.model} is not valid; check EMBEDDING_API_BASE."
            ) from error
        except urllib3.exceptions.HTTPError as error:
            said = (str(error) or repr(error))[: answers.MAX_LOGGED_CHARACTERS]
            raise answers.no_answer(self.model, said, was_taken=_was_taken(error)) from error
        except ValueError:
            # the error's text quotes the header, so it must not be logged
            raise EmbeddingUnauthorized(
                f"The key or another header has characters that cannot be sent to {self.model}; check "
                "EMBEDDING_API_KEY and OPENAI_CUSTOM_HEADERS."
            ) from None
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            raise answers.status_error(self.model, answer.status, headers, answer.data, len(texts))
        return self._read(answer.data, len(texts))

    def _answer(self, body: bytes) -> BaseHTTPResponse:
        import urllib3

        # it follows redirects; retries are decided elsewhere
        retries = urllib3.Retry(total=None, connect=False, read=False, other=False, redirect=MAX_REDIRECTS)
        connections = _connections(os.getpid(), self._proxy)
        return connections.request(
            "POST", self._address, body, headers=self._headers, retries=retries, timeout=self.seconds
        )

    def _body(self, texts: Sequence[str], encoding: str) -> bytes:
        fields: dict[str, object] = {
            "model": self.model.removeprefix(PREFIX),
            "input": list(texts),
            "encoding_format": encoding,
        }
        if self.dimensions is not None:
            fields["dimensions"] = self.dimensions
        return orjson.dumps(fields)

    @cached_property
    def _url(self) -> Url:
        from urllib3.exceptions import URLSchemeUnknown
        from urllib3.util import parse_url

        base = self.api_base or _variable("OPENAI_BASE_URL", "OPENAI_API_BASE") or _DEFAULT_BASE
        url = parse_url(f"{base.rstrip('/')}/embeddings")
        if url.scheme not in {"http", "https"}:
            raise URLSchemeUnknown(str(url.scheme))
        return url

    @cached_property
    def _address(self) -> str:
        return self._url._replace(auth=None).url

    @cached_property
    def _proxy(self) -> str | None:
        """Return the proxy that the environment names for the address."""
        proxies = getproxies()
        proxy = proxies.get(self._url.scheme or "") or proxies.get("all")
        if not proxy or proxy_bypass(self._url.netloc or ""):
            return None
        return proxy if "://" in proxy else f"http://{proxy}"

    @cached_property
    def _headers(self) -> HTTPHeaderDict:
        from urllib3 import HTTPHeaderDict

        named = {
            "Authorization": f"Bearer {self._key()}",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "foldex",
            "OpenAI-Organization": _variable("OPENAI_ORGANIZATION", "OPENAI_ORG_ID"),
            "OpenAI-Project": _variable("OPENAI_PROJECT_ID"),
        }
        headers = HTTPHeaderDict({name: value for name, value in named.items() if value is not None})
        headers.update(_custom_headers(os.environ.get("OPENAI_CUSTOM_HEADERS", "")))
        if self._url.auth:
            headers["Authorization"] = _basic(self._url.auth)
        return headers

    def _key(self) -> str:
        """Return the configured key, or the one in OpenAI's own variable. Servers at other addresses may need none."""
        key = self.api_key or _variable("OPENAI_API_KEY")
        if not key and not self.api_base:
            raise answers.missing_key(self.model)
        return key or "none"

    def _read(self, content: bytes, texts: int) -> list[Any]:
        """Return the rows of an answer. Raises `EmbeddingUnreadable`, or the `error_in_body` that it holds."""
        try:
            answer = _parsed(content)
        except (ValueError, RecursionError) as error:
            raise answers.unreadable(self.model, error) from error
        if not isinstance(answer, dict):
            raise answers.unreadable(self.model, TypeError(f"not an object but {type(answer).__name__}"))
        if not answer.get("data") and any(map(answer.get, _OF_ERRORS)):
            raise answers.error_in_body(self.model, content, texts)
        if not isinstance(answer.get("data"), list):
            raise answers.unreadable(self.model, LookupError("no list of vectors"))
        return list(answer["data"])


def warm() -> None:
    """Import the modules that the first request needs. It opens nothing, so it may run before a fork."""
    import urllib3  # noqa: F401 - else it is imported with the first request

    _certificates()


@lru_cache(maxsize=2)
def _connections(process: int, proxy: str | None) -> PoolManager:  # noqa: ARG001 - a forked process must not use its parent's connections
    import urllib3
    from urllib3.util import parse_url

    if proxy is None:
        return urllib3.PoolManager(maxsize=MAX_IDLE, ssl_context=_certificates())
    auth = parse_url(proxy).auth
    headers = {"Proxy-Authorization": _basic(auth)} if auth else None
    return urllib3.ProxyManager(proxy, maxsize=MAX_IDLE, proxy_headers=headers, ssl_context=_certificates())


def _basic(auth: str) -> str:
    """Return the header for a name and a password of an address."""
    return f"Basic {base64.b64encode(unquote(auth).encode()).decode()}"


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Return the trusted certificates, by the variables that LiteLLM reads: `SSL_VERIFY` may be false or a path."""
    import certifi

    verify = _variable("SSL_VERIFY") or "true"
    if verify.strip().lower() == "false":
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        return unchecked
    paths = (verify, _variable("SSL_CERT_FILE"))
    path = next((path for path in paths if path and Path(path).exists()), certifi.where())
    context = ssl.create_default_context(cafile=path)
    if ciphers := _variable("SSL_SECURITY_LEVEL"):
        context.set_ciphers(ciphers)
    return context


def _parsed(content: bytes) -> Any:
    """Parse an answer. Some servers write numbers that JSON lacks, such as NaN, and the other vectors are paid for."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return json.loads(content)


def _was_taken(error: Exception) -> bool:
    """Return whether a server accepted the request that failed."""
    from urllib3 import exceptions

    return isinstance(error, exceptions.ProtocolError | exceptions.ReadTimeoutError | exceptions.DecodeError)


def _variable(*names: str) -> str | None:
    """Return the first variable of the environment that is set and not empty."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def _custom_headers(lines: str) -> Mapping[str, str]:
    """Return the headers from a variable of OpenAI's own client: lines of a name, a colon and a value."""
    pairs = (line.partition(":") for line in lines.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and name.strip()}
