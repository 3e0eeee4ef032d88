"""Makes one function a method that blocks in `Foldex` and is awaited in `AsyncFoldex`.

A call is a function that returns a `Request`, or a coroutine of several.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from foldex_client.models import Page
from foldex_client.sending import AsyncLink, Request, Session

P = ParamSpec("P")
T = TypeVar("T")
BlockingOutcome = TypeVar("BlockingOutcome")
AsyncOutcome = TypeVar("AsyncOutcome")


class Blocking:
    """Marks the calls of `Foldex`."""


class Async:
    """Marks the calls of `AsyncFoldex`."""


Way = TypeVar("Way", Blocking, Async)


class Calls(Generic[Way]):
    """Base of groups of calls."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.base_url!r})"


class Both(Generic[P, BlockingOutcome, AsyncOutcome]):
    """A method of both clients. `start` begins it, and `block` takes what was begun to its end."""

    def __init__(
        self,
        function: Callable[Concatenate[Any, P], Any],
        start: Callable[[Session, Any], AsyncOutcome],
        block: Callable[[AsyncOutcome], BlockingOutcome],
    ) -> None:
        self._function, self._start, self._block = function, start, block
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, calls: Calls[Blocking], owner: object = None) -> Callable[P, BlockingOutcome]: ...
    @overload
    def __get__(self, calls: Calls[Async], owner: object = None) -> Callable[P, AsyncOutcome]: ...
    def __get__(self, calls: Calls[Any], owner: object = None) -> Callable[P, BlockingOutcome | AsyncOutcome]:
        bound, session = self._function.__get__(calls), calls._session  # noqa: SLF001 # a method of the calls

        @wraps(bound)
        def method(*args: P.args, **kwargs: P.kwargs) -> BlockingOutcome | AsyncOutcome:
            begun = self._start(session, bound(*args, **kwargs))
            return begun if isinstance(session.link, AsyncLink) else self._block(begun)

        return method


def call(
    function: Callable[Concatenate[Any, P], Request[T] | Coroutine[Any, Any, T]],
) -> Both[P, T, Coroutine[Any, Any, T]]:
    """A call with one answer."""
    return Both(function, lambda session, made: session.send(made) if isinstance(made, Request) else made, _result)


def listing(
    function: Callable[Concatenate[Any, P], Request[Page[T]] | AsyncGenerator[T, None]],
) -> Both[P, Iterator[T], AsyncGenerator[T, None]]:
    """A call with many answers, which are fetched when the caller asks for them."""
    return Both(function, lambda session, made: session.pages(made) if isinstance(made, Request) else made, _items)


def _result(awaitable: Awaitable[T]) -> T:
    """Return the result of a coroutine over a `BlockingLink`, which never pauses."""
    try:
        next(awaitable.__await__())
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("a blocking link suspended")


def _items(items: AsyncGenerator[T, None]) -> Iterator[T]:
    try:
        while True:
            try:
                item = _result(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        _result(items.aclose())
