"""Scopes and expiry of keys. Each level includes those before it; the other scopes add one permission each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Literal, get_args

Level = Literal["search", "write", "admin"]
Scope = Literal[Level, "impersonate", "all_documents"]

LEVELS: tuple[Level, ...] = get_args(Level)
SCOPES: tuple[Scope, ...] = get_args(Scope)

MAX_NAME = 200
#: The name of a key has no control character, and none that begins a line or turns its direction: terminals show it.
NAME = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$"

#: How a duration is written.
DURATION = "^[0-9]{1,9}[smhd]$"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
MAX_DAYS = 3650


def listed(scopes: Collection[str]) -> list[Scope]:
    """Scopes as they are shown: each once, in their order."""
    return [scope for scope in SCOPES if scope in scopes]


def checked(scopes: Collection[str]) -> list[Scope]:
    """The scopes of a new key. Raises `ValueError` if none of them is a level."""
    if not any(level in scopes for level in LEVELS):
        raise ValueError(f"a key needs one of the scopes {', '.join(LEVELS)}, to which the others add")
    return listed(scopes)


def allowed(scopes: Iterable[str]) -> frozenset[Scope]:
    """Permissions of a key with these scopes. A scope of a newer release permits nothing here."""
    held = set(scopes)
    level = max((number for number, level in enumerate(LEVELS, 1) if level in held), default=0)
    return frozenset({*LEVELS[:level], *listed(held)})


def is_name(text: str) -> bool:
    """Whether a key can be called so."""
    return len(text) <= MAX_NAME and re.match(NAME, text) is not None and text.isprintable()


def duration(text: str) -> timedelta:
    """The time that a text such as `30d` means. Raises `ValueError`."""
    if not re.match(DURATION, text) or text.endswith("\n"):
        raise ValueError("a duration is a whole number and one of s, m, h and d, such as 30d")
    length = timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    if length > timedelta(days=MAX_DAYS):
        raise ValueError(f"a duration has at most {MAX_DAYS}d")
    return length


def lifetime(text: str) -> timedelta:
    """As `duration`, for how long a key is valid: not for no time at all."""
    length = duration(text)
    if not length:
        raise ValueError("a key is valid for a second at least")
    return length
