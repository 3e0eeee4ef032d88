"""Embedding by any provider that LiteLLM supports. Only this module imports LiteLLM, and only on demand.

The import takes seconds and 140 MB, so processes choose when to call `warm`. Importing before a fork is safe and shares
the memory. Embedding before a fork is not: the children would share connections and inherit a dead thread.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from json import JSONDecodeError
from typing import Any

from schemas.errors import EmbeddingError, EmbeddingUnauthorized
from worker.embed.answers import (
    MAX_LOGGED_CHARACTERS,
    MODEL_REMEDY,
    error_in_body,
    missing_key,
    no_answer,
    status_error,
    unreadable,
)
from worker.embed.endpoint import Endpoint
from worker.machine.logs import LITELLM_LOGGERS
from worker.machine.memory.gc_pause import without_garbage_collection

#: Providers whose client requires a key, although self-hosted servers with the same API need none.
_NEED_KEY_PROVIDERS = {"openai", "openrouter"}
#: Causes of LiteLLM's errors for an answer of status 200 with an unexpected form.
_UNREADABLE = (JSONDecodeError, LookupError, TypeError, AttributeError)


class LiteLLMClient(Endpoint):
    """One model at one address. Thread-safe."""

    def rows(self, texts: Sequence[str], encoding: str) -> list[Any]:
        """Return the rows of the answer to one request. Raises any `EmbeddingError`."""
        litellm = warm()
        import openai

        try:
            return self._ask(litellm, texts, encoding)
        except openai.OpenAIError as error:
            raise embedding_error(self.model, error, len(texts)) from error
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # LiteLLM also raises such errors for an answer with an unexpected form.
            raise unreadable(self.model, error) from error

    def _ask(self, litellm: Any, texts: Sequence[str], encoding: str) -> list[Any]:
        silence_warnings()
        _price(self.model)
        answer = litellm.embedding(
            model=self.model,
            input=list(texts),
            encoding_format=encoding,
            api_base=self.api_base,
            api_key=self._key(litellm),
            timeout=self.seconds,
            num_retries=0,
            max_retries=0,
            drop_params=True,
            **self._dimension_arguments(),
        )
        return list(answer.data or [])

    def _dimension_arguments(self) -> dict[str, object]:
        if self.dimensions is None:
            return {}
        return {"dimensions": self.dimensions, "allowed_openai_params": ["dimensions"]}

    def _key(self, litellm: Any) -> str | None:
        """Return the configured key; None leaves the key to the provider's own environment variable."""
        if _provider(self.model) not in _NEED_KEY_PROVIDERS or self.api_key:
            return self.api_key
        missing = litellm.validate_environment(self.model)["missing_keys"]
        if missing and not self.api_base:
            raise missing_key(self.model)
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
_IGNORED_WARNINGS = "Pydantic serializer warnings|Item '[^']+' on TypedDict class"
_WARNING_FILTER = ("ignore", re.compile(_IGNORED_WARNINGS, re.IGNORECASE), UserWarning, None, 0)
#: The JSON around the message of a provider. One pattern for all of it would take quadratic time.
_MESSAGE, _MESSAGE_END = re.compile(r"""["']message["']: ?["']"""), re.compile(r"""["'](?:,|})""")


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
        raise EmbeddingUnauthorized(f"No provider is known for the model {model}. {MODEL_REMEDY}") from error


@cache
def _price(model: str) -> None:
    """Register a price of zero for a model missing from LiteLLM's table: its lookup takes a fifth of each request."""
    litellm = warm()
    if model not in litellm.model_cost and model.partition("/")[2] not in litellm.model_cost:
        free = {"mode": "embedding", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        litellm.register_model({model: {"litellm_provider": _provider(model), **free}})


def embedding_error(model: str, error: Exception, texts: int = 1) -> EmbeddingError:
    """Map LiteLLM's error to ours by its status, because LiteLLM picks its classes by words in the provider's text."""
    if isinstance(error, warm().exceptions.LiteLLMUnknownProvider):
        return EmbeddingUnauthorized(f"The provider of {model} does not offer embeddings. {MODEL_REMEDY}")
    if is_unanswered(error):
        return no_answer(model, provider_text(error), was_taken=was_taken(error))
    if not is_refused(error):
        if is_caused_by(error, _UNREADABLE):
            return unreadable(model, error)
        if any(type(cause) is Exception for cause in causes(error)):
            # LiteLLM's class for an error that it finds in a body
            return error_in_body(model, str(error), texts)
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        # an error in a body with a provider-specific code
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value
    return status_error(model, status, headers_of(error), body_of(error), texts)


def is_refused(error: Exception) -> bool:
    """Return whether the cause of an error is known to be a server's answer with another status than 200."""
    import httpx

    return is_caused_by(error, httpx.HTTPStatusError)


def is_unanswered(error: Exception) -> bool:
    """Return whether a failed connection or a time-out caused an error. LiteLLM invents a status for these."""
    import httpx

    return is_caused_by(error, httpx.TransportError)


def was_taken(error: Exception) -> bool:
    """Return whether a server accepted the request that failed."""
    import httpx

    after_connecting = (
        httpx.ReadError,
        httpx.WriteError,
        httpx.RemoteProtocolError,
        httpx.ReadTimeout,
        httpx.WriteTimeout,
    )
    return is_caused_by(error, after_connecting)


def is_caused_by(error: BaseException | None, kind: type[Exception] | tuple[type[Exception], ...]) -> bool:
    """Return whether an error, or one of its causes, is of that type."""
    return any(isinstance(cause, kind) for cause in causes(error))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def provider_text(error: Exception) -> str:
    """Return the provider's message from the JSON that LiteLLM quotes. It is untrusted text, so only log it."""
    text = str(error)
    begin = _MESSAGE.search(text)
    end = _MESSAGE_END.search(text, begin.end() + 1) if begin else None
    message = text[begin.end() : end.start()] if begin and end else text.partition("Exception - ")[2] or text
    return message[:MAX_LOGGED_CHARACTERS].strip()


def body_of(error: BaseException) -> bytes | str:
    """Return the body of the provider's answer, else LiteLLM's quotation of it. It is untrusted, so only log it."""
    contents = (getattr(getattr(cause, "response", None), "content", None) for cause in causes(error))
    return next((content for content in contents if isinstance(content, bytes) and content), str(error))


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers of the provider's answer, with names in lower case."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in headers.items()}
