"""Derives one verdict from the status, headers and body of a provider's answer other than 200.

Providers report the same fault with different statuses. A text beyond the model's context is a 400, 413, 422 or 500,
and an account without credit is a 400, 402, 403 or 429. So words decide where the status does not. Only the words of
the error count, because some servers quote the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import orjson

from schemas.errors import Excess
from worker.machine.retry_after import asked_wait, seconds_to_wait

#: Maximum characters of an error's words that are examined.
MAX_WORDS = 2000
#: Maximum bytes of a body that is examined. A larger one does not describe an error.
_MAX_BODY = 1 << 20
#: Maximum number and depth of the values of a JSON body that are examined.
_MAX_VALUES, _MAX_DEPTH = 200, 6
#: Members of an error in JSON that describe it. Others may quote the request.
_DESCRIBING = frozenset({
    "code", "description", "detail", "details", "error", "error_code", "error_description", "error_type", "errors",
    "message", "msg", "reason", "retryDelay", "status", "title", "type",
})  # fmt: skip

#: Statuses that refuse a request for its content, so that the same request is refused again.
REFUSED_STATUSES = frozenset({400, 413, 422})
#: Statuses, other than server errors, after which the same request may succeed later.
_BUSY_STATUSES = frozenset({408, 409, 425, 429})
#: Statuses that some provider uses for a text that is too long, or for too many texts.
_SIZE_STATUSES = REFUSED_STATUSES | {500}
#: Statuses that some provider uses for an account without quota, if its words say so.
_QUOTA_STATUSES = frozenset({400, 403, 429})

_NO_QUOTA = re.compile(
    r"insufficient_quota|insufficient[ _](?:balance|funds|credit)|billing[ _](?:hard[ _]limit|not[ _]active)"
    r"|credit balance|not enough (?:credit|balance|fund)|(?:out|run out) of credit|exceeded_current_quota"
    r"|payment[ _]required|arrearage|in good standing|account is not active|top up|calls ?/ ?month"
    r"|monthly (?:quota|limit)"
)
#: So do OpenAI, if nothing is left, and Gemini, also if the rate of a minute is used up: then it says how long to wait.
_MAYBE_NO_QUOTA = re.compile(r"exceeded your current quota")
#: A wait that only the words state.
_STATED_WAIT = re.compile(
    r"(?:try again in|retry after|retry in|retrydelay\W{1,4}|wait) ?(\d[\d.hms]{0,20})(?:\s?(milliseconds|minutes))?"
)

#: Tokens of all texts of a request.
_TOKENS = re.compile(
    r"tokens? (?:in|per) (?:the |a |this |one )?(?:batch|request|call)|max_tokens_per_request"
    r"|tokens? overall|split into more batches|per submitted batch|request too large for"
)
#: A text that is too long for the model. llama.cpp's batch has tokens.
_LENGTH = re.compile(
    r"context[ _](?:length|size|window)|context the overflows|exceed_context|too large to process|physical batch size"
    r"|maximum input length|(?:less|fewer|more) than \d{1,9} (?:tokens|characters)|max_?(?:model|seq|input)_?len"
    r"|too many (?:input )?tokens|(?:number of|input|allowed|max|maximum) tokens?\b|allowed token size|token limit"
    r"|max \d{1,9} tokens|out of bounds|index out of range|invalid index|maxlength|size of (?:the )?tensor"
    r"|(?:limit|maximum) of \d{1,9} (?:tokens|characters)|maximum (?:sequence )?length of \d{1,9} (?:tokens|characters)"
    r"|exceeds?\b.{0,40}\b(?:tokens?|sequence length|characters)\b"
    r"|(?:sequence|prompt|text|string|sentence)s? (?:length )?is too long"
    r"|string_too_long|at most \d{1,9} (?:tokens|characters)|input is too long|too long for (?:the|this) model"
    r"|reduce the length|shorter input|token indices sequence length|kv (?:cache|size)"
)
#: More texts than a request may hold.
_THINGS = r"(?:inputs?|texts?|items?|elements?|requests?|documents?|strings?|sentences?|entries|instances?|contents?)"
_TEXTS = re.compile(
    rf"batch[ _]?size|too many (?!requests){_THINGS}\b(?! tokens)|number of {_THINGS}\b|at most \d{{1,9}} {_THINGS}\b"
    rf"|more than \d{{1,9}} {_THINGS}\b|(?:limit|maximum|max) (?:of|is) \d{{1,9}} {_THINGS}\b"
    rf"|max(?:imum)? \d{{1,9}} {_THINGS}\b|exceeds? .{{0,20}}\d{{1,9}} {_THINGS}\b"
    r"|array.{0,20}(?:too (?:long|large)|maximum length)|\[\] is too long|list.{0,20}at most|too_many_"
    r"|largest allowed size|item count|batch (?:is )?too (?:large|big|long)|list too long|array length"
)
#: A request may hold one text only.
_SINGLE = re.compile(
    r"only (?:a single|one|1) (?:input|text|string|item|element)|single (?:input|text|string)"
    r"|one (?:input|text) (?:per|at)|does not support (?:batch|arrays?|lists?|multiple)"
    r"|batch(?:ing|es)? (?:is|are) not supported|(?:be a valid|valid|be a|expected a?) ?string"
)
#: Other wordings: something is too much, and what it is. They do not count if the words concern something else.
_TOO = re.compile(
    r"too (?:long|large|big|many|much)|exceed|(?:longer|larger|greater|more|less|fewer|shorter|smaller) than|at most"
    r"|\bmax(?:imum)?\b|max_|\blimit|up to|overflow|<=|>|accepts (?:at|only|up|\d)|supports (?:at|only|up|\d)"
)
_OF_TEXT = re.compile(r"token|characters|context|sequence|\blength")
_OF_LIST = re.compile(r"\b(?:batch|array|list|inputs|texts|items|elements|documents|strings|sentences|entries)\b")
_TEXT = re.compile(r"\b(?:input|text|prompt|content|document|string|sentence)\b")
_ELSE = re.compile(r"memory|\brate\b|\btime|concurren|queue|polic|filter|dimension")
#: The number of texts that a request may hold, after such words.
_MOST = re.compile(
    r"(?:at most|larger than|greater than|more than|maximum|max|limit|up to|exceeds?|allowed|accepts|supports|<=|>)"
    r"[^\d]{0,40}(\d{1,6})(?!\d)"
)


class Kind(StrEnum):
    """The party that an answer blames."""

    #: The request, for its content.
    REFUSED = "refused"
    #: The key, the address or the name of the model.
    UNAUTHORIZED = "unauthorized"
    #: The rate. The same request may succeed after a wait.
    RATE = "rate"
    #: The account, which has no quota left.
    QUOTA = "quota"
    #: The provider.
    OUTAGE = "outage"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The meaning of an answer. `wait` is the requested wait in seconds. `excess` and `most` describe a refusal."""

    kind: Kind
    wait: float | None = None
    excess: Excess | None = None
    most: int | None = None


def judge(status: int, headers: Mapping[str, str], body: bytes | str, texts: int = 1) -> Verdict:
    """Interpret an answer other than 200 to a request of `texts` texts. Header names are lower case."""
    words = words_of(body).lower()
    wait = asked_wait(headers, is_rate_limit=status == HTTPStatus.TOO_MANY_REQUESTS)
    if status == HTTPStatus.TOO_MANY_REQUESTS and wait is None:
        wait = _stated_wait(words)
    if status == HTTPStatus.PAYMENT_REQUIRED or (status in _QUOTA_STATUSES and _has_no_quota(words, wait)):
        return Verdict(Kind.QUOTA, wait)
    refusal = _refusal(status, words, texts)
    if refusal is not None:
        return refusal
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Verdict(Kind.RATE, wait)
    if status in _BUSY_STATUSES or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Verdict(Kind.OUTAGE, wait)
    return Verdict(Kind.UNAUTHORIZED, wait)


def words_of(body: bytes | str) -> str:
    """Return the words of an error: the members of JSON that describe it, else the beginning of the text."""
    if len(body) > _MAX_BODY:
        return ""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body if isinstance(body, str) else body[: 4 * MAX_WORDS].decode(errors="replace")
    else:
        found = _described(parsed, _MAX_DEPTH)
        text = "\n".join(str(value) for _, value in zip(range(_MAX_VALUES), found, strict=False))
    return text[:MAX_WORDS]


def _described(value: Any, depth: int) -> Iterator[str | int]:
    """Yield the strings and numbers of the members that describe an error."""
    if isinstance(value, str | int):
        yield value
    elif isinstance(value, list) and depth:
        for each in value:
            yield from _described(each, depth - 1)
    elif isinstance(value, dict) and depth:
        for name, each in value.items():
            if name in _DESCRIBING:
                yield from (f"{name}: {each}",) if name == "retryDelay" else _described(each, depth - 1)


def _has_no_quota(words: str, wait: float | None) -> bool:
    return bool(_NO_QUOTA.search(words)) or (wait is None and bool(_MAYBE_NO_QUOTA.search(words)))


def _stated_wait(words: str) -> float | None:
    found = _STATED_WAIT.search(words)
    if found is None:
        return None
    seconds = seconds_to_wait(found[1].rstrip("."))
    return seconds and seconds * {"milliseconds": 0.001, "minutes": 60.0}.get(found[2], 1.0)


def _refusal(status: int, words: str, texts: int) -> Verdict | None:
    """Return the verdict on a request that is refused for its content; None if it is not."""
    is_large_for_rate = status == HTTPStatus.TOO_MANY_REQUESTS and texts > 1 and "request too large for" in words
    if status not in _SIZE_STATUSES and not is_large_for_rate:
        return None
    excess, most = _excess(status, words, texts)
    if excess is None and status not in REFUSED_STATUSES:
        return None
    return Verdict(Kind.REFUSED, excess=excess, most=most)


def _excess(status: int, words: str, texts: int) -> tuple[Excess | None, int | None]:
    """Return the excess of a request, and the provider's limit for it. A single text can only be too long."""
    is_single = bool(_SINGLE.search(words)) and status in REFUSED_STATUSES
    is_too_many = is_single or (bool(_TEXTS.search(words)) and "physical batch size" not in words)
    is_too_much = bool(_TOKENS.search(words))
    is_too_long = bool(_LENGTH.search(words))
    if not (is_too_many or is_too_much or is_too_long) and _TOO.search(words) and not _ELSE.search(words):
        is_too_long = bool(_OF_TEXT.search(words))
        is_too_many = not is_too_long and bool(_OF_LIST.search(words))
        is_clear = status in REFUSED_STATUSES or "too long" in words or "too large" in words
        is_too_long |= not is_too_many and is_clear and bool(_TEXT.search(words))
    if texts > 1 and is_too_many:
        return Excess.TEXTS, 1 if is_single else _most(words, texts)
    if texts > 1 and is_too_much:
        return Excess.TOKENS, None
    if is_too_long or is_too_much or (is_too_many and not is_single):
        return Excess.LENGTH, None
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return (Excess.SIZE, None) if texts > 1 else (Excess.LENGTH, None)
    return None, None


def _most(words: str, texts: int) -> int | None:
    """Return the number of texts that a request may hold according to the words."""
    return next((number for found in _MOST.finditer(words) if 0 < (number := int(found[1])) < texts), None)
