"""The headers with which a service asks to wait. The client library has its own reader, as it imports no other part."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

#: A length of time as OpenAI writes it: `6m0s`, `120ms`, `1.5s`.
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|d|h|m|s)")
_SECONDS_OF = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
#: Longer values do not state a time.
_LONGEST_VALUE = 64
#: Numbers above these are moments since 1970, in seconds and in milliseconds.
_MOMENT, _MOMENT_MS = 1e9, 1e12
#: Headers with the moment at which a rate resets, each with the header of its remaining amount.
_RESETS = {
    "x-ratelimit-reset-requests": "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-tokens": "x-ratelimit-remaining-tokens",
    "anthropic-ratelimit-requests-reset": "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-tokens-reset": "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-input-tokens-reset": "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-output-tokens-reset": "anthropic-ratelimit-output-tokens-remaining",
    "x-ratelimit-reset": "x-ratelimit-remaining",
    "ratelimit-reset": "ratelimit-remaining",
}


def seconds_to_wait(retry_after: str | None, now: float | None = None) -> float | None:
    """Return the seconds to wait from a header: seconds, a duration, a moment or a date. `now` is the service's."""
    value = (retry_after or "").strip()
    if not value or len(value) > _LONGEST_VALUE:
        return None
    now = time.time() if now is None else now
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now)
    else:
        seconds = _from_number(seconds, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def asked_wait(headers: Mapping[str, str], *, is_rate_limit: bool) -> float | None:
    """Return the seconds that an answer's headers ask to wait; None if they do not. Header names are lower case.

    Only the answer to a request above the rate waits for its reset, because other answers report it too.
    """
    now = _date(headers.get("date"))
    in_ms = seconds_to_wait(headers.get("retry-after-ms"), now)
    if in_ms is not None:
        return in_ms / 1000
    stated = seconds_to_wait(headers.get("retry-after"), now)
    if stated is not None or not is_rate_limit:
        return stated
    resets = {name: seconds_to_wait(headers.get(name), now) for name in _RESETS}
    waits = {name: seconds for name, seconds in resets.items() if seconds is not None}
    used_up = [seconds for name, seconds in waits.items() if headers.get(_RESETS[name], "").strip() == "0"]
    return max(used_up or waits.values(), default=None)


def _from_number(number: float, now: float) -> float:
    if number > _MOMENT_MS:
        return number / 1000 - now
    return number - now if number > _MOMENT else number


def _seconds_until(value: str, now: float) -> float:
    """Return the seconds of a duration or until a date; not a number if it is neither."""
    parts = _DURATION.findall(value)
    if parts and "".join(map("".join, parts)) == value:
        return sum(float(amount) * _SECONDS_OF[unit] for amount, unit in parts)
    moment = _date(value)
    return math.nan if moment is None else moment - now


def _date(value: str | None) -> float | None:
    """Return the moment of an HTTP date or an RFC 3339 date."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            date = parse(value or "")
        except (ValueError, TypeError, OverflowError):
            continue
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return None
