"""Reaches a service: the one that `--server` names, or the stack on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import click

from api.cli.invocation import Invocation, VerbFailed
from api.stack.record import environment, installation_home, owner, url_of

if TYPE_CHECKING:
    from api.cli.service.local_calls import Json, JsonRecord, LocalCalls
    from foldex_client import Foldex, FoldexError

Item = TypeVar("Item")

#: Further attempts of a call: few enough for a service that is not there.
RETRIES = 3
#: The same for the embedded stack, whose supervisor runs: within 12 to 24 s it has started a killed API again.
RETRIES_OF_STACK = 7
#: Seconds after which a service that says nothing is given up.
PATIENCE_SECONDS = 60.0


@dataclass
class Connection:
    """A service that can be called. `home` is set if it is the embedded stack of that directory."""

    url: str
    home: Path | None
    invocation: Invocation
    #: Seconds after which a call is given up, and not repeated; None for the usual `PATIENCE_SECONDS` and retries.
    patience: float | None = None
    #: Warnings that were printed while something was waited for.
    told: set[str] = field(default_factory=set)

    @cached_property
    def foldex(self) -> Foldex:
        """A client, whose library is loaded when it is first needed. Raises `VerbFailed`."""
        key, principals = self.invocation.key, self.invocation.principals
        client = partial(load_client(), self.url, key, principals=principals, trust_env=not is_loopback(self.url))
        try:
            if self.patience is not None:
                return client(retries=0, timeout=self.patience, deadline=self.patience)
            return client(retries=retries(self.home), deadline=PATIENCE_SECONDS)
        except ValueError as error:
            raise VerbFailed(str(error).replace("base_url", "--server").replace("api_key", "--key")) from None

    @cached_property
    def _local(self) -> LocalCalls | None:
        from api.cli.service.local_calls import LocalCalls

        timeout = PATIENCE_SECONDS if self.patience is None else self.patience
        # the client library alone knows how principals are sent
        is_simple = self.is_here and self.invocation.principals is None
        return LocalCalls(self.url, self.invocation.key, timeout) if is_simple else None

    def call_locally(self, method: str, path: str, body: Json | None = None) -> JsonRecord | None:
        """The answer to one attempt; None if the service is elsewhere, or did not answer with success.

        Raises `VerbFailed` if it was silent until the patience was over.
        """
        try:
            return None if self._local is None else self._local.call(method, path, body)
        except TimeoutError:
            raise VerbFailed(_late(self.url, self.home)) from None

    @contextmanager
    def errors_in_words(self) -> Iterator[None]:
        """Turn errors of calls into `VerbFailed`."""
        try:
            yield
        except Exception as error:  # the client's own class can be named only once that library is loaded
            errors = sys.modules.get("foldex_client.errors")
            if errors is None or not isinstance(error, errors.FoldexError):
                raise
            raise VerbFailed(self.sentence(error)) from error

    def sentence(self, error: FoldexError) -> str:
        """The sentence for an error of a call."""
        return sentence(error, self.url, self.home, has_key=bool(self.invocation.key))

    def try_each(self, items: Collection[Item], action: Callable[[Item], object]) -> bool:
        """Do the same with each item. An error of one of several is shown, once, and leaves the others.

        Returns whether there was one. Raises `VerbFailed` for that of a single item.
        """
        shown = set[str]()
        for item in items:
            try:
                with self.errors_in_words():
                    action(item)
            except VerbFailed as error:
                if len(items) == 1:
                    raise
                if error.message not in shown:
                    error.show()
                shown.add(error.message)
        return bool(shown)

    def close(self) -> None:
        """Close all connections."""
        for opened in self.__dict__.keys() & {"foldex", "_local"}:
            if self.__dict__[opened] is not None:
                self.__dict__[opened].close()

    @property
    def is_here(self) -> bool:
        """Whether the service runs on this machine, so that both see the same folders."""
        return self.home is not None or is_loopback(self.url)


#: Called with the directory of a stack before it is started. Raises `VerbFailed` if nothing needs it.
Check = Callable[[Path], object]


def always(_: Path) -> None:
    """Start a stack whatever is in its directory."""


@contextmanager
def connect(
    invocation: Invocation, *, start_if: Check | None = None, patience: float | None = None
) -> Iterator[Connection]:
    """A client of the service. With `start_if`, a stack that does not run is started. Raises `VerbFailed`."""
    url, home = address(invocation, start_if)
    service = Connection(url, home, invocation, patience)
    try:
        with service.errors_in_words():
            yield service
    finally:
        service.close()


def address(invocation: Invocation, start_if: Check | None) -> tuple[str, Path | None]:
    """The address of the service, and the home of the embedded stack if it is that one. Raises `VerbFailed`."""
    home = installation_home()
    try:
        stack = environment(home)
    except OSError as error:
        raise VerbFailed(f"{home} cannot be read ({error.strerror}): run as its owner, or set FOLDEX_HOME.") from error
    if invocation.server is not None:
        url = invocation.server.rstrip("/")
        return invocation.server, home if stack and url == url_of(stack) else None
    if stack:
        return url_of(stack), home
    if start_if is None:
        raise VerbFailed(f"No Foldex runs in {home}; start it with `foldex up`, or name another service with --server.")
    start_if(home)
    from api.cli.service.background import start as start_stack

    # the stack takes seconds to start, and most verbs need the client afterwards
    return start_stack(home, lambda line: click.echo(line, err=True), meanwhile=load_client), home


def page_of(service: Connection) -> str:
    """The address of the page. That of the embedded stack may permit folders. Raises `VerbFailed`."""
    if service.home is None:
        return f"{service.url.rstrip('/')}/"
    from api.stack.page_link import page_address

    try:
        return page_address(service.home, environment(service.home))
    except OSError as error:
        raise VerbFailed(f"{service.home} cannot be written ({error.strerror}): run as its owner.") from error


def load_client() -> type[Foldex]:
    """The client library's class, which takes a while to load."""
    skip_the_program_of_httpx()
    from foldex_client import Foldex

    return Foldex


def skip_the_program_of_httpx() -> None:
    """Keep httpx from loading its own command line, which takes as long as the rest of it."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # None stops the import, as documented


def is_loopback(url: str) -> bool:
    """Whether an address leads to this machine."""
    from worker.machine.privacy import names_loopback

    try:
        return names_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def retries(home: Path | None) -> int:
    """Further attempts of a call to a service that is the embedded stack of `home`, if it is one."""
    return RETRIES if home is None else RETRIES_OF_STACK


def sentence(error: FoldexError, url: str, home: Path | None, *, has_key: bool = True) -> str:
    """The sentence for an error of a call to a service that is the embedded stack of `home`, if it is one."""
    from foldex_client.errors import ConnectionFailed, Invalid, TimedOut, Unauthorized, UnexpectedAnswer
    from worker.machine.error_texts import knows_no_field

    if isinstance(error, TimedOut):
        return _late(url, home)
    if isinstance(error, ConnectionFailed):
        return _silent(url, home)
    if isinstance(error, UnexpectedAnswer):
        return f"What answers at {url} is not Foldex; check --server."
    if isinstance(error, Unauthorized):
        refused = "refuses the key; give a valid one" if has_key else "needs a key; give one"
        return f"Foldex at {url} {refused} with --key (`foldex keys create`)."
    if isinstance(error, Invalid) and knows_no_field(error.detail):
        restart = "update it" if home is None else "run `foldex down`; the next command starts the new one"
        return f"Foldex at {url} is older than this command ({error.detail.partition(':')[0]} is new to it); {restart}."
    return error.detail


def _late(url: str, home: Path | None) -> str:
    logs = "its logs" if home is None else f"the logs in {home / 'log'}"
    return f"Foldex at {url} did not answer in time; try again, or see {logs}."


def _silent(url: str, home: Path | None) -> str:
    if home is None:
        return f"Foldex does not answer at {url}; check --server, and that it runs there."
    if owner(home) is None:
        return f"Foldex at {url} has stopped; start it with `foldex up`, and try again. Its logs are in {home / 'log'}."
    return f"Foldex at {url} runs, but its API does not answer; try again, or see the logs in {home / 'log'}."
