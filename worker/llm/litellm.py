"""Rerank models and language models of any provider that LiteLLM supports.

Requests run on an event loop in its own thread. There a request that takes too long is cancelled and its connection
closed, even while the provider still sends. A blocking thread would be held as long as the provider wants.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import structlog

from schemas.errors import RerankUnavailable
from schemas.wording import amount
from worker.embed.litellm import provider_text, silence_warnings, warm
from worker.embed.rate_limit import no_check
from worker.llm.thoughts import text_of, without_thoughts

T = TypeVar("T")
Check = Callable[[], None]

#: Seconds between two checks whether the caller still waits for the answer.
CHECK_SECONDS = 0.1

log = structlog.get_logger()

_starting = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []
#: Providers that refused to answer in JSON mode.
_without_json_mode: set[Provider] = set()


@dataclass(frozen=True, slots=True)
class Provider:
    """A model, its address and key (None: LiteLLM's defaults for the provider), and the time-out in seconds."""

    model: str
    api_base: str | None
    api_key: str | None = field(repr=False)
    seconds: float
    #: Names of the settings to check if the provider refuses.
    variables: str


def relevance(provider: Provider, query: str, documents: Sequence[str], check: Check = no_check) -> list[float]:
    """Send one request to a rerank model: a finite score for each document, in whatever range the model uses.

    Raises `RerankUnavailable`, also if the answer does not give each document exactly one score, and the errors of
    `check`.
    """
    litellm = warm()
    request = litellm.arerank(
        query=query, documents=list(documents), top_n=len(documents), return_documents=False, **arguments(provider)
    )
    return _wait(provider, request, lambda answer: _scores_in_order(provider, answer, len(documents)), check)


def completion(provider: Provider, messages: Sequence[dict[str, str]], check: Check = no_check) -> str:
    """Return a language model's answer, in JSON if supported. Raises `RerankUnavailable`, and the errors of `check`."""
    return _wait(provider, _complete(provider, messages), lambda answer: _content(provider, answer), check)


async def _complete(provider: Provider, messages: Sequence[dict[str, str]]) -> Any:
    """Send the request, and retry once if the provider refuses `response_format`; the refusal is remembered."""
    import openai

    ask = partial(warm().acompletion, messages=list(messages), temperature=0, drop_params=True, **arguments(provider))
    if provider in _without_json_mode:
        return await ask()
    try:
        return await ask(response_format={"type": "json_object"})
    except (openai.BadRequestError, openai.UnprocessableEntityError):
        answer = await ask()
        _without_json_mode.add(provider)
        return answer


def arguments(provider: Provider) -> dict[str, object]:
    """Return the arguments that all requests to a provider share."""
    return {
        "model": provider.model,
        "api_base": provider.api_base,
        "api_key": _key(provider),
        "timeout": provider.seconds,
        "num_retries": 0,
        "max_retries": 0,
    }


def _key(provider: Provider) -> str | None:
    """Return the configured key. Self-hosted servers need none, but their clients require one."""
    if provider.api_key or not provider.api_base:
        return provider.api_key
    return "none" if warm().validate_environment(provider.model)["missing_keys"] else None


def _wait(provider: Provider, request: Coroutine[Any, Any, Any], read: Callable[[Any], T], check: Check) -> T:
    import openai

    silence_warnings()
    future = asyncio.run_coroutine_threadsafe(request, event_loop())
    try:
        wait_in_time(future, provider.seconds, check)
        return read(future.result(0))
    except TimeoutError as error:
        remedy = "choose a faster model, or raise SEARCH_SECONDS"
        raise RerankUnavailable(f"{provider.model} did not answer within {provider.seconds:g} s; {remedy}.") from error
    except openai.OpenAIError as error:
        raise RerankUnavailable(_refusal_message(provider, error)) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # LiteLLM raises such internal errors if an answer does not have the expected form.
        raise RerankUnavailable(
            f"The response of {provider.model} is not readable. Check {provider.variables}."
        ) from error
    finally:
        future.cancel()


def wait_in_time(future: Future[Any], seconds: float, check: Check) -> None:
    """Wait until a request ends or its time is up. `check` may raise while waiting."""
    until = time.monotonic() + seconds
    while (remaining := until - time.monotonic()) > 0 and wait([future], min(CHECK_SECONDS, remaining)).not_done:
        check()


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop on which requests run."""
    with _starting:
        if not _loops:
            _loops.append(asyncio.new_event_loop())
            threading.Thread(target=_loops[0].run_forever, name="rerank", daemon=True).start()
        return _loops[0]


def _refusal_message(provider: Provider, error: Exception) -> str:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int) or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # LiteLLM quotes unreadable answers at length in an error 500 of its own, so leave its text out.
        return (
            f"{provider.model} failed or returned an unreadable response. If this persists, check {provider.variables}."
        )
    remedy = "" if status == HTTPStatus.TOO_MANY_REQUESTS else f" Check {provider.variables}."
    log.warning("a provider rejected a request", model=provider.model, status=status, said=provider_text(error))
    return f"{provider.model} failed with {status}.{remedy}"


def _scores_in_order(provider: Provider, answer: Any, count: int) -> list[float]:
    log.debug("reranked", model=provider.model, documents=count, billed=(answer.meta or {}).get("billed_units"))
    scores = {row["index"]: row["relevance_score"] for row in answer.results}
    if len(answer.results) != count or scores.keys() != set(range(count)):
        raise RerankUnavailable(f"{provider.model} did not return one score for each of {amount(count, 'text')}.")
    if not all(map(math.isfinite, scores.values())):
        raise RerankUnavailable(f"{provider.model} returned scores that are not numbers.")
    return [scores[index] for index in range(count)]


def _content(provider: Provider, answer: Any) -> str:
    log.debug("completed", model=provider.model, tokens=answer.usage.total_tokens)
    return without_thoughts(text_of(answer.choices[0].message.content))
