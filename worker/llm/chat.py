"""Answers of language models in plain text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog

from schemas.errors import LlmError, LlmRefused, LlmUnauthorized, LlmUnavailable
from worker.embed.faults import is_fault_of_text
from worker.embed.litellm import (
    body_of,
    headers_of,
    is_caused_by,
    is_unanswered,
    provider_text,
    silence_warnings,
    warm,
    was_taken,
)
from worker.embed.rate_limit import RateBudget, no_check
from worker.embed.retry import fault, no_quota, trouble
from worker.embed.verdicts import Kind, judge
from worker.llm.litellm import Check, Provider, arguments, event_loop, wait_in_time
from worker.llm.thoughts import text_of, without_thoughts
from worker.tokens.tokenizers import cl100k

#: A prompt that every model can answer, and the tokens of its answer.
HARMLESS_PROMPT, HARMLESS_TOKENS = "Answer with one word: which colour has snow?", 16

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer with the tokens that it cost."""

    text: str
    tokens_in: int
    tokens_out: int
    #: Whether the answer ended at the maximum of tokens.
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Chat:
    """A model with the budget that all workers share; `project` is the project whose share is used."""

    provider: Provider
    budget: RateBudget | None
    project: str
    #: Called with the tokens of each answer.
    paid: Callable[[int, int], None]

    def ask(self, prompt: str, max_tokens: int, check: Check = no_check) -> Completion:
        """Wait for the budget and send one request.

        Raises `LlmRefused`, also if the server fails at this prompt and answers another one, `LlmUnauthorized`,
        `LlmUnavailable`, and the errors of `check`.
        """
        tokens = len(cl100k().starts(prompt))

        def send() -> Completion:
            began = time.monotonic()
            try:
                return _completion(self.provider, prompt, max_tokens, check)
            except LlmUnavailable as error:
                if self._is_fault_of_prompt(error, time.monotonic() - began, check):
                    said = f"{self.provider.model} answers other prompts, and {fault(error)}."
                    raise LlmRefused(said, reason="no_answer" if error.was_taken else "refused") from error
                raise

        if self.budget is None:
            answer = send()
        else:
            answer = self.budget.call(send, project=self.project, tokens=tokens + max_tokens, check=check)
        self.paid(answer.tokens_in, answer.tokens_out)
        return answer

    def _is_fault_of_prompt(self, error: LlmUnavailable, seconds: float, check: Check) -> bool:
        """Return whether the server answers a harmless prompt just after it failed."""

        def seconds_of_harmless() -> float | None:
            check()
            if self.budget is not None:
                tokens = len(cl100k().starts(HARMLESS_PROMPT)) + HARMLESS_TOKENS
                self.budget.charge(project=self.project, tokens=tokens, check=check)
            began = time.monotonic()
            try:
                answer = _completion(self.provider, HARMLESS_PROMPT, HARMLESS_TOKENS, check)
            except LlmError:
                return None
            self.paid(answer.tokens_in, answer.tokens_out)
            return time.monotonic() - began

        return is_fault_of_text(error, seconds, seconds_of_harmless)


def _completion(provider: Provider, prompt: str, max_tokens: int, check: Check) -> Completion:
    import openai

    litellm = warm()
    silence_warnings()
    request = litellm.acompletion(
        messages=[{"role": "user", "content": prompt}],
        temperature=0,
        max_tokens=max_tokens,
        drop_params=True,
        **arguments(provider),
    )
    future = asyncio.run_coroutine_threadsafe(request, event_loop())
    try:
        wait_in_time(future, provider.seconds, check)
        return _read(prompt, future.result(0))
    except TimeoutError as error:
        remedy = "choose a faster model, or for queries raise SEARCH_SECONDS"
        said = f"{provider.model} did not answer within {provider.seconds:g} s; {remedy}."
        raise LlmUnavailable(said, was_taken=True) from error
    except openai.OpenAIError as error:
        raise _error(provider, error) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # LiteLLM raises such internal errors if an answer does not have the expected form.
        raise _unreadable(provider) from error
    finally:
        future.cancel()


def _read(prompt: str, answer: Any) -> Completion:
    choice = answer.choices[0]
    text = text_of(choice.message.content)
    usage = getattr(answer, "usage", None)
    tokens_in = getattr(usage, "prompt_tokens", None) or len(cl100k().starts(prompt))
    tokens_out = getattr(usage, "completion_tokens", None) or len(cl100k().starts(text))
    return Completion(without_thoughts(text), tokens_in, tokens_out, choice.finish_reason == "length")


def _error(provider: Provider, error: Exception) -> LlmError:
    import httpx

    status = getattr(error, "status_code", None)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR and not is_caused_by(error, httpx.HTTPError):
        # LiteLLM reports an answer of status 200 that it cannot read as an error 500 of its own
        return _unreadable(provider)
    if is_unanswered(error):
        log.warning("a provider does not answer", model=provider.model, said=provider_text(error))
        remedy = f"Check that its server runs, and {provider.variables}."
        return LlmUnavailable(f"{trouble(provider.model, None)}. {remedy}", was_taken=was_taken(error))
    if not isinstance(status, int):
        # an error in a body with a provider-specific code
        status = HTTPStatus.INTERNAL_SERVER_ERROR.value
    log.warning("a provider rejected a request", model=provider.model, status=status, said=provider_text(error))
    message = f"{provider.model} failed with {status}."
    verdict = judge(status, headers_of(error), body_of(error))
    match verdict.kind:
        case Kind.REFUSED:
            return LlmRefused(message)
        case Kind.UNAUTHORIZED:
            return LlmUnauthorized(f"{message} Check {provider.variables}.")
        case Kind.QUOTA:
            return LlmUnavailable(f"{no_quota(provider.model)}.", provider_status=status, has_no_quota=True)
        case Kind.RATE | Kind.OUTAGE:
            message = f"{trouble(provider.model, status, verdict.wait)}."
            return LlmUnavailable(message, retry_after=verdict.wait, provider_status=status)


def _unreadable(provider: Provider) -> LlmRefused:
    message = f"The response of {provider.model} is not readable. Check {provider.variables}."
    return LlmRefused(message, reason="unreadable")
