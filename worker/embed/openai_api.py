"""Embedding by OpenAI's API, or a server with the same one, over plain HTTP.

It saves LiteLLM's import: two seconds, and 140 MB in each process that does not share them.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

import orjson

from schemas.errors import EmbeddingRefused, EmbeddingUnauthorized
from worker.embed import answers
from worker.embed.endpoint import Endpoint
from worker.embed.kept_open import HttpAnswer, KeptOpen, NotConnected, Origin

if TYPE_CHECKING:
    from httpx import URL, Client, Headers

PREFIX = "openai/"
#: Members of an answer that describe an error.
_OF_ERRORS = ("error", "errors", "message", "detail")
_DEFAULT_BASE = "https://api.openai.com/v1"


class OpenAIClient(Endpoint):
    """One model at one address. Thread-safe. Its process shares connections with other models, but not with a fork."""

    def rows(self, texts: Sequence[str], encoding: str) -> list[Any]:
        """The rows of the answer to one request. Raises any `EmbeddingError`."""
        import httpx

        try:
            answer = self._answer(self._body(texts, encoding))
        except httpx.InvalidURL as error:
            raise EmbeddingUnauthorized(
                f"The address of {self.model} is not valid; check EMBEDDING_API_BASE."
            ) from error
        except (OSError, HTTPException, httpx.HTTPError) as error:
            said = (str(error) or repr(error))[: answers.MAX_LOGGED_CHARACTERS]
            raise answers.no_answer(self.model, said, was_taken=_was_taken(error)) from error
        except (TypeError, ValueError) as error:
            # its text may quote the key
            answers.log.warning("cannot write a request to a provider", model=self.model, error=type(error).__name__)
            raise EmbeddingRefused(
                f"A text or the key has characters that cannot be sent to {self.model}; check EMBEDDING_API_KEY."
            ) from error
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise answers.status_error(self.model, answer.status, answer.headers, answer.content, len(texts))
        return self._read(answer.content, len(texts))

    def _answer(self, body: bytes) -> HttpAnswer:
        if self._is_plain:
            url, kept_open = self._url, _kept_open(os.getpid())
            origin = Origin(url.scheme == "https", url.raw_host.decode(), url.port)
            answer = kept_open.post(origin, url.raw_path.decode(), self._plain_headers, body, self.seconds)
            if not HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
                return answer
        # it follows redirects
        answered = _connections(os.getpid()).post(self._url, headers=self._headers, content=body, timeout=self.seconds)
        return HttpAnswer(answered.status_code, answered.headers, answered.content)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether `KeptOpen` can ask. The environment's proxies, passwords in addresses and all else are for httpx."""
        are_proxies_set = not {"http", "https", "all"}.isdisjoint(getproxies())
        return self._url.scheme in {"http", "https"} and not self._url.userinfo and not are_proxies_set

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
    def _url(self) -> URL:
        from httpx import URL

        base = self.api_base or _variable("OPENAI_BASE_URL", "OPENAI_API_BASE") or _DEFAULT_BASE
        return URL(f"{base.rstrip('/')}/embeddings")

    @cached_property
    def _headers(self) -> Headers:
        from httpx import Headers

        named = {
            "Authorization": f"Bearer {self._key()}",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "foldex",
            "OpenAI-Organization": _variable("OPENAI_ORGANIZATION", "OPENAI_ORG_ID"),
            "OpenAI-Project": _variable("OPENAI_PROJECT_ID"),
        }
        headers = Headers({name: value for name, value in named.items() if value is not None})
        headers.update(_custom_headers(os.environ.get("OPENAI_CUSTOM_HEADERS", "")))
        return headers

    @cached_property
    def _plain_headers(self) -> Mapping[str, str]:
        return dict(self._headers)

    def _key(self) -> str:
        """The configured key, or that of OpenAI's own variable. Servers at other addresses may need none."""
        key = self.api_key or _variable("OPENAI_API_KEY")
        if not key and not self.api_base:
            raise answers.missing_key(self.model)
        return key or "none"

    def _read(self, content: bytes, texts: int) -> list[Any]:
        """The rows of an answer. Raises `EmbeddingUnreadable`, and what `error_in_body` says if it holds an error."""
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
    """Import what the first request needs. It opens nothing, so that it may run before a fork."""
    import httpcore  # noqa: F401 - else it is imported with the first client
    import httpx  # noqa: F401 - see above

    _certificates()


@lru_cache(maxsize=1)
def _kept_open(process: int) -> KeptOpen:  # noqa: ARG001 - a forked process must not use its parent's connections
    return KeptOpen(_certificates())


@lru_cache(maxsize=1)
def _connections(process: int) -> Client:  # noqa: ARG001 - see above
    from httpx import Client

    return Client(verify=_certificates(), follow_redirects=True)


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Which certificates are trusted, by the variables that LiteLLM reads: `SSL_VERIFY` may be false or a path."""
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
    """An answer in JSON. Some servers write numbers that JSON does not have, and the other vectors are paid for."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return json.loads(content)


def _was_taken(error: Exception) -> bool:
    """Whether a server took the request that failed."""
    if isinstance(error, OSError | HTTPException):
        return not isinstance(error, NotConnected)
    return isinstance(error, answers.errors_after_connecting())


def _variable(*names: str) -> str | None:
    """The first variable of the environment that is set and not empty."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def _custom_headers(lines: str) -> Mapping[str, str]:
    """Headers from a variable of OpenAI's own client: lines of a name, a colon and a value."""
    pairs = (line.partition(":") for line in lines.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and name.strip()}
