"""Embedding by any provider that LiteLLM supports. Only this module imports LiteLLM, and only on demand.

The import takes seconds and 180 MB, so processes choose when to call `warm`. Importing before a fork is safe and shares
the memory. Embedding before a fork is not: the children would share connections and inherit a dead thread.
"""

from __future__ import annotations

import binascii
import logging
import os
import re
import time
import warnings
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from http import HTTPStatus
from typing import Any

import numpy as np
import orjson
import structlog

from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnauthorized, EmbeddingUnavailable
from schemas.source import EmbedderProfile
from worker.embed import Vectors
from worker.logs import LITELLM_LOGGERS
from worker.machine.gc_pause import without_garbage_collection

#: Seconds without a byte from the provider after which a request counts as lost.
TIMEOUT_SECONDS = 60.0

log = structlog.get_logger()

_REFUSED_STATUSES = {400, 413, 422}
_UNAVAILABLE_STATUSES = {408, 409, 425, 429}
_KEY_REMEDY = (
    "Set EMBEDDING_API_KEY to a valid key of the provider, and EMBEDDING_API_BASE if its address is not the default."
)
_MODEL_REMEDY = "Check the model's name, which must begin with its provider, as in openai/text-embedding-3-small."
_STATUS_REMEDIES = {
    402: "Add credit to the provider's account.",
    404: f"{_MODEL_REMEDY} Check EMBEDDING_API_BASE, if it is set.",
}
#: Maximum length of a provider's message in the log, in characters.
_MAX_LOGGED_CHARACTERS = 300
#: Providers whose client requires a key, although self-hosted servers with the same API need none.
_NEED_KEY_PROVIDERS = {"openai", "openrouter"}


class LiteLLMEmbedder:
    """A provider's model as an `Embedder`. Thread-safe.

    `dimensions` are sent only if explicitly configured, because many models refuse the parameter.
    """

    def __init__(
        self,
        profile: EmbedderProfile,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        max_inputs: int,
        max_request_tokens: int,
        explicit_dimensions: bool = False,
    ) -> None:
        self.profile = profile
        self.max_inputs = max_inputs
        self.max_request_tokens = max_request_tokens
        self._call = Call(profile.model, api_base, api_key, profile.dimensions if explicit_dimensions else None)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`. A refusal names the refused texts if they are known."""
        vectors = self._call.vectors(texts)
        if vectors.shape[1] != self.profile.dimensions:
            raise EmbeddingUnauthorized(
                f"{self.profile.model} returns {vectors.shape[1]} dimensions, but the index was built with "
                f"{self.profile.dimensions}. Create a new tool, or restore the previous EMBEDDING_API_BASE."
            )
        return _unit(vectors)


class Call:
    """One model at one address, and what is learned about how it answers."""

    def __init__(
        self,
        model: str,
        api_base: str | None,
        api_key: str | None,
        dimensions: int | None,
        seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._model = model
        self._seconds = seconds
        self._api_base = api_base
        self._api_key = api_key
        self._dimensions = dimensions
        self._encoding = "base64"
        self._base64_works = False

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """The unmodified answer to one request, float32 of shape (len(texts), the model's dimensions).

        The first requests find out whether the provider supports base64, which is far cheaper to decode than lists.
        """
        # Keep a copy: another thread may change it during the request.
        encoding = self._encoding
        try:
            data = self._request(texts, encoding)
        except EmbeddingRefused as refusal:
            if encoding == "float" or self._base64_works:
                raise
            data = self._retry_with_lists(texts, refusal)
        else:
            self._base64_works |= encoding == "base64"
        return _decode(data, len(texts))

    def _retry_with_lists(self, texts: Sequence[str], refusal: EmbeddingRefused) -> list[Any]:
        try:
            data = self._request(texts, "float")
        except EmbeddingRefused:
            raise refusal from None
        self._encoding = "float"
        return data

    def _request(self, texts: Sequence[str], encoding: str) -> list[Any]:
        litellm = warm()
        ask = self._ask_openai if _provider(self._model) == "openai" else self._ask_litellm
        import openai

        try:
            return ask(litellm, texts, encoding)
        except openai.OpenAIError as error:
            raise embedding_error(self._model, error) from error
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # LiteLLM raises such errors, too, if an answer does not have the expected form.
            log.warning(
                "cannot read a provider's response", model=self._model, error=repr(error)[:_MAX_LOGGED_CHARACTERS]
            )
            raise EmbeddingRefused(
                f"The response of {self._model} is not readable; check EMBEDDING_API_BASE."
            ) from error

    def _ask_litellm(self, litellm: Any, texts: Sequence[str], encoding: str) -> list[Any]:
        silence_warnings()
        _price(self._model)
        answer = litellm.embedding(
            model=self._model,
            input=list(texts),
            encoding_format=encoding,
            api_base=self._api_base,
            api_key=self._key(litellm),
            timeout=self._seconds,
            num_retries=0,
            max_retries=0,
            drop_params=True,
            **self._dimension_arguments(),
        )
        return list(answer.data or [])

    def _ask_openai(self, litellm: Any, texts: Sequence[str], encoding: str) -> list[Any]:
        """Ask with the client that LiteLLM uses for this provider, which takes a fourth of LiteLLM's processor time."""
        from httpx import Response

        client = _openai_client(self._api_base, self._key(litellm), self._seconds)
        body: dict[str, Any] = {
            "model": self._model.removeprefix("openai/"),
            "input": list(texts),
            "encoding_format": encoding,
        }
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        return self._data(client.post("/embeddings", body=body, cast_to=Response).content)

    def _data(self, content: bytes) -> list[Any]:
        """The rows of an answer. Raises `EmbeddingUnavailable` if it is no JSON, or holds an error."""
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise EmbeddingUnavailable(f"The response of {self._model} is not JSON.") from error
        if "error" in answer and "data" not in answer:
            said = str(answer["error"])[:_MAX_LOGGED_CHARACTERS]
            log.warning("a provider answered with an error", model=self._model, said=said)
            raise EmbeddingUnavailable(f"The response of {self._model} holds an error instead of vectors.")
        return list(answer["data"] or [])

    def _dimension_arguments(self) -> dict[str, Any]:
        if self._dimensions is None:
            return {}
        return {"dimensions": self._dimensions, "allowed_openai_params": ["dimensions"]}

    def _key(self, litellm: Any) -> str | None:
        """The configured key; None leaves the key to the provider's own environment variable."""
        if _provider(self._model) not in _NEED_KEY_PROVIDERS or self._api_key:
            return self._api_key
        missing = litellm.validate_environment(self._model)["missing_keys"]
        if missing and not self._api_base:
            raise EmbeddingUnauthorized(f"{self._model} needs a key. {_KEY_REMEDY}")
        return "none" if missing else None


@cache
def warm() -> Any:
    """Import `litellm` and silence its output. The first call takes seconds; it starts no thread and opens nothing."""
    # Otherwise LiteLLM fetches a price list over the network and loads a .env file into the environment.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    # Otherwise LiteLLM reports each success, to no listener, in threads that take a fifth of a request's time.
    os.environ.setdefault("LOGGING_EXECUTOR_MAX_PENDING_TASKS", "0")
    # Garbage collection takes a quarter of the import's time.
    with without_garbage_collection():
        import httpcore  # noqa: F401 - else every process imports this and openai.resources at its first request
        import litellm
        import openai.resources  # noqa: F401 - see above

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    # LiteLLM ignores a zero that is passed with a request.
    litellm.DEFAULT_MAX_RETRIES = 0
    # LiteLLM also raises the failures that it logs, and its log may quote texts.
    for name in (*LITELLM_LOGGERS, "httpx"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


#: LiteLLM's response model declares vectors as lists and warns about each one in base64. Pydantic warns about LiteLLM's
#: models when it first builds them.
_IGNORED_WARNINGS = "Pydantic serializer warnings|Item '.+' on TypedDict class"
_WARNING_FILTER = ("ignore", re.compile(_IGNORED_WARNINGS, re.IGNORECASE), UserWarning, None, 0)


def silence_warnings() -> None:
    """Filter out the warnings that LiteLLM causes."""
    # Repeated for each request: code that restores the filters, as test runners do, removes ours.
    if _WARNING_FILTER not in warnings.filters:
        warnings.filterwarnings("ignore", _IGNORED_WARNINGS, UserWarning)


@cache
def _provider(model: str) -> str:
    litellm = warm()
    import openai

    try:
        return str(litellm.get_llm_provider(model)[1])
    except openai.OpenAIError as error:
        raise EmbeddingUnauthorized(f"No provider is known for the model {model}. {_MODEL_REMEDY}") from error


@lru_cache(maxsize=32)
def _openai_client(api_base: str | None, api_key: str | None, seconds: float) -> Any:
    """A client for OpenAI's API, with the addresses and certificates of the variables that LiteLLM reads.

    Models at one address share its connections.
    """
    import openai
    from httpx import Client
    from litellm.llms.custom_httpx.http_handler import get_ssl_configuration

    environment = os.environ
    return openai.OpenAI(
        base_url=api_base or environment.get("OPENAI_BASE_URL") or environment.get("OPENAI_API_BASE"),
        api_key=api_key,
        organization=environment.get("OPENAI_ORGANIZATION"),
        timeout=seconds,
        max_retries=0,
        http_client=Client(verify=get_ssl_configuration(), follow_redirects=True),
    )


@cache
def _price(model: str) -> None:
    """Register a price of zero for a model missing from LiteLLM's table: its lookup takes a fifth of each request."""
    litellm = warm()
    if model not in litellm.model_cost and model.partition("/")[2] not in litellm.model_cost:
        free = {"mode": "embedding", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        litellm.register_model({model: {"litellm_provider": _provider(model), **free}})


def native_dimensions(
    model: str,
    dimensions: int | None,
    api_base: str | None,
    api_key: str | None,
    *,
    seconds: float = TIMEOUT_SECONDS,
) -> int:
    """Dimensions of the model's answer to one word, if `dimensions` are requested. Raises any `EmbeddingError`."""
    width: int = _unit(Call(model, api_base, api_key, dimensions, seconds).vectors(["word"])).shape[1]
    return width


def known_input_tokens(model: str) -> int | None:
    """Maximum number of tokens in one text, if LiteLLM's own table has it."""
    table: dict[str, dict[str, Any]] = warm().model_cost
    entry = table.get(model) or table.get(model.partition("/")[2]) or {}
    return entry.get("max_input_tokens")


def embedding_error(model: str, error: Exception) -> EmbeddingError:
    """Map LiteLLM's error to ours by its status, because LiteLLM picks its classes by words in the provider's text."""
    import openai

    timed_out = HTTPStatus.REQUEST_TIMEOUT.value if isinstance(error, openai.APITimeoutError) else None
    status = getattr(error, "status_code", timed_out)
    if not isinstance(status, int):
        # A failed connection, or an error in a body with a provider-specific code.
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value
    # The address may be an internal service whose response only the operator may read, so log it but do not raise it.
    log.warning("a provider rejected a request", model=model, status=status, said=provider_text(error))
    message = f"{model} failed with {status}."
    if isinstance(error, warm().exceptions.LiteLLMUnknownProvider):
        return EmbeddingUnauthorized(f"The provider of {model} does not offer embeddings. {_MODEL_REMEDY}")
    if status in _REFUSED_STATUSES:
        return EmbeddingRefused(message)
    if status in _UNAVAILABLE_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return EmbeddingUnavailable(message, retry_after=retry_after(error), provider_status=status)
    return EmbeddingUnauthorized(f"{message} {_STATUS_REMEDIES.get(status, _KEY_REMEDY)}")


def provider_text(error: Exception) -> str:
    """The provider's message, extracted from the JSON that LiteLLM quotes. It is foreign text, so only log it."""
    text = str(error)
    quoted = re.search(r"""["']message["']: ?["'](.+?)["'](?:,|})""", text)
    return (quoted[1] if quoted else text.partition("Exception - ")[2] or text)[:_MAX_LOGGED_CHARACTERS].strip()


def retry_after(error: Exception) -> float | None:
    """Seconds to wait, from a header that holds seconds or a date."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _decode(data: Sequence[Any], count: int) -> Vectors:
    """Rows in the order of the inputs, from base64 of little-endian floats or from lists."""
    if len(data) != count:
        raise EmbeddingRefused(
            f"The provider returned {len(data)} vectors for {count} texts; check EMBEDDING_API_BASE."
        )
    try:
        rows = sorted(data, key=lambda row: row["index"])
        cells = [_cell(row["embedding"]) for row in rows]
        vectors = np.stack(cells)
    except (LookupError, TypeError, ValueError) as error:
        log.warning("cannot read a provider's vectors", error=str(error)[:_MAX_LOGGED_CHARACTERS])
        raise EmbeddingRefused("The provider's vectors are not readable; check EMBEDDING_API_BASE.") from error
    if [row["index"] for row in rows] != list(range(count)):
        raise EmbeddingRefused(
            "The provider's response does not say which vector belongs to which text; check EMBEDDING_API_BASE."
        )
    return vectors


def _cell(value: str | Sequence[float]) -> Vectors:
    if isinstance(value, str):
        return np.frombuffer(binascii.a2b_base64(value), dtype="<f4").astype(np.float32, copy=False)
    return np.asarray(value, dtype=np.float32)


def _unit(vectors: Vectors) -> Vectors:
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0)).tolist()
    if bad:
        raise EmbeddingRefused(
            "The provider returned a vector that is zero or not a number; exclude the file, or change the model.",
            indices=bad,
        )
    unit: Vectors = vectors / norms
    return unit
