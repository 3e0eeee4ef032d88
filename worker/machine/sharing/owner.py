"""The owner for whom the current thread or coroutine works: a project, or an address without a key. None in workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

current: ContextVar[str | None] = ContextVar("owner", default=None)


@contextmanager
def working_for(owner: str | None) -> Iterator[None]:
    """Work for an owner until the block ends."""
    token = current.set(owner)
    try:
        yield
    finally:
        current.reset(token)
