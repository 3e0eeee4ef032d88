"""Bodies in JSON: how large they are in all, how many values they have, and how they are parsed.

The standard library holds the interpreter while it parses, and makes up to 50 bytes of objects for each byte. So bodies
are counted before they are parsed, large ones are parsed by a few threads, and each is parsed once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.types import Scope

from api.http import scopes
from api.http.current_lists import CHECKED_WITHIN, WITHOUT_FILES, answers_by_current_lists
from schemas.errors import BodiesBusy, Invalid, TooManyValues
from schemas.wording import amount
from worker.machine.memory.gc_pause import without_garbage_collection
from worker.machine.sharing.slots import Slots

#: Bytes of a body, unless the call takes the content of a file. Lists of 1,000 names and patterns are smaller.
MAX_PLAIN_BYTES = 1_000_000
#: Values of a body, names of objects included. Parsing takes up to 0.2 µs and 100 bytes for each.
MAX_VALUES = 100_000
#: Values of a body that has the content of a file: a table of 50,000 rows with five columns.
MAX_CONTENT_VALUES = 500_000
#: Values of a message of agents, which the library of their protocol parses in the event loop.
MAX_MCP_VALUES = 10_000
#: Faults of a large body that are described. Pydantic holds the interpreter for 4 µs to describe each.
MAX_FAULTS = 1000
#: Levels of a body. Pydantic's parser and serializer take no more.
MAX_LEVELS = 200
#: Bytes of a body that is parsed in the event loop, which takes less than a thread switch under load.
INLINE_BYTES = 1 << 15
#: Large bodies that a process parses and carries out at the same time, and those of one project.
MAX_PARSED, MAX_PARSED_OF_ONE = 2, 1
#: Seconds that a large body waits for its turn to be parsed.
PARSE_WAIT_SECONDS = 3.0
#: Bytes that an upload counts as: those that are read ahead of its parser.
UPLOAD_BYTES = 1 << 20
#: Bytes that are scanned at a time.
_BLOCK = 1 << 18
#: The place in a request of its parsed body, or of the reason why it has none.
_PARSED = "foldex.body"
#: The place in a request of the mark that its body is large.
_IS_LARGE = "foldex.large_body"
_BUSY = "Too many large bodies arrive or are in progress; try again, or send smaller ones."
#: The escape of half a surrogate pair without the other half.
_UNPAIRED = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|[c-fC-F](?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]))"
)

_slots = Slots(MAX_PARSED, MAX_PARSED_OF_ONE)


class BodyBudget:
    """Bytes of bodies that a process holds, in all and by owner. For one event loop."""

    def __init__(self, total: int, per_owner: int) -> None:
        self._total, self._per_owner = total, per_owner
        self._held: Counter[str] = Counter()

    @contextmanager
    def holding(self, owner: str) -> Iterator[Callable[[int], None]]:
        """A function that adds bytes of this owner, until the block ends. It raises `BodiesBusy`."""
        added = 0

        def add(size: int) -> None:
            nonlocal added
            if self._held[owner] + size > self._per_owner or self._held.total() + size > self._total:
                raise BodiesBusy(_BUSY)
            self._held[owner] += size
            added += size

        try:
            yield add
        finally:
            self._held[owner] -= added
            if not self._held[owner]:
                del self._held[owner]


def check(body: bytes, most_values: int) -> None:
    """Raise `TooManyValues`, and `Invalid` for a body that is nested too deeply."""
    opened = body.count(b"[") + body.count(b"{")
    if opened <= MAX_LEVELS and opened + body.count(b",") + body.count(b":") <= most_values:
        return
    values = level = deepest = 0
    for count, highest, change in _shape(body):
        values += count
        if values > most_values:
            raise TooManyValues(
                f"The body has more than {most_values:,} values; send fewer, or upload a large document as a file."
            )
        deepest = max(deepest, level + highest)
        level += change
    # otherwise it is not JSON, and the parser will say so
    if deepest > MAX_LEVELS and level == 0:
        raise Invalid(f"The body is nested deeper than {MAX_LEVELS} levels; flatten it, or upload it as a file.")


def _shape(body: bytes) -> Iterator[tuple[int, int, int]]:
    """For each block of a body its number of values, its highest level and its change of level, outside of strings."""
    import numpy as np

    kinds = np.zeros(256, np.int8)
    kinds[[ord("["), ord("{")]], kinds[[ord("]"), ord("}")]], kinds[[ord(","), ord(":")]] = 1, -1, 2
    within, start = False, 0
    while start < len(body):
        block = body[start : start + _BLOCK]
        escapes = len(block) - len(block.rstrip(b"\\"))
        if escapes % 2 and len(block) > 1:
            # what it escapes is in the next block
            block = block[:-1]
        start += len(block)
        letters = np.frombuffer(block.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
        quoted = np.logical_xor.accumulate(letters == ord('"')) ^ within if len(letters) else letters.astype(bool)
        within = bool(quoted[-1]) if len(quoted) else within
        found = np.where(quoted, 0, kinds[letters])
        steps = np.cumsum(np.where(found == 2, 0, found), dtype=np.int64)  # noqa: PLR2004 - a kind above
        count = int(np.count_nonzero(found > 0))
        yield count, int(steps.max(initial=0)), int(steps[-1]) if len(steps) else 0


def parse(scope: Scope, body: bytes, most_values: int) -> None:
    """Parse a body once, for all its readers. Raises `TooManyValues` and `Invalid`."""
    check(body, most_values)
    with without_garbage_collection():
        try:
            scope[_PARSED] = from_json(body, cache_strings="keys")
        except ValueError as error:
            scope[_PARSED] = _with_surrogates(body) if _UNPAIRED.search(body) else error


def _with_surrogates(body: bytes) -> Any:
    """Parse a body with unpaired surrogates, so that the answer names their field. Returns the error if it is not JSON.

    Raises `Invalid` for a body that would hold the interpreter for long.
    """
    if len(body) > INLINE_BYTES:
        raise Invalid("The body has an unpaired surrogate, which is not valid text; remove it.")
    try:
        return json.loads(body)
    except ValueError as error:
        return error
    except RecursionError:
        return ValueError("it is nested too deeply")


def parse_in_turn(scope: Scope, body: bytes, most_values: int, owner: str, turn: ExitStack) -> None:
    """Wait for the turn of a large body, and parse it; `turn` ends that turn. Raises `BodiesBusy` as well."""
    turn.enter_context(_slots.within(PARSE_WAIT_SECONDS, BodiesBusy(_BUSY), owner))
    scope[_IS_LARGE] = True
    parse(scope, body, most_values)


def parsed(scope: Scope) -> Any:
    """The value of the body. Raises `ValueError` if it is not JSON."""
    value = scope.get(_PARSED, ValueError("the body is empty"))
    if isinstance(value, ValueError):
        raise value
    return value


def _check_faults(adapter: TypeAdapter[Any], value: Any) -> None:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        if error.error_count() > MAX_FAULTS:
            count = amount(error.error_count(), "field or item", "fields or items")
            raise Invalid(f"The body has {count} that this call does not take; see /docs.") from None


class _ParsedRequest(Request):
    async def json(self) -> Any:
        """See Starlette."""
        try:
            return parsed(self.scope)
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from error


class JsonRoute(APIRoute):
    """A route that takes the body as it was parsed. FastAPI itself parses it in the event loop.

    FastAPI describes every fault of a body there, too. So those of a large body are counted first. An operation that
    reads answers by the access lists that hold at its end.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], *, name: str | None = None, **values: Any) -> None:
        """See FastAPI."""
        operation = name or str(getattr(endpoint, "__name__", ""))
        if scopes.NEEDED.get(operation) == "search" and operation not in CHECKED_WITHIN | WITHOUT_FILES:
            endpoint = answers_by_current_lists(endpoint)
        super().__init__(path, endpoint, name=name, **values)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handler = super().get_route_handler()
        expected = None if self.body_field is None else self.body_field.field_info.annotation
        adapter: TypeAdapter[Any] | None = None if expected is None else TypeAdapter(expected)

        async def handle(request: Request) -> Response:
            if adapter is not None and request.scope.get(_IS_LARGE):
                _check_faults(adapter, request.scope[_PARSED])
            return await handler(_ParsedRequest(request.scope, request.receive))

        return handle
