"""The part that all verbs over HTTP share: options, exit status, and handling of errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

import click

from api.cli.terminal.flags import in_flags

P = ParamSpec("P")

#: Exit statuses, as those of grep.
FOUND = 0
NOTHING = 1
ERROR = 2
#: The status of a program that Ctrl-C ended.
INTERRUPTED = 130
#: The message about an argument that cannot be sent.
NOT_UTF_8 = "An argument holds bytes that are no UTF-8; rename what it names, or set a locale such as LC_ALL=C.UTF-8."
#: For commands whose answers the HTTP API does not have.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class VerbFailed(click.ClickException):
    """A verb cannot do its work. The message is one sentence that names the remedy."""

    exit_code = ERROR

    def format_message(self) -> str:
        """The sentence as it is printed: what the service says of its fields, said of flags."""
        return in_flags(self.message)


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that every verb has, and whether to print JSON."""

    server: str | None
    key: str | None
    project: str | None
    as_json: bool = False
    #: For whom the call is; None: for the key itself.
    principals: tuple[str, ...] | None = None


def named(principals: Sequence[str]) -> tuple[str, ...] | None:
    """The principals of `--as`; None without it. An empty one alone stands for nobody in particular."""
    return tuple(filter(None, principals)) if principals else None


Verb = Callable[Concatenate[Invocation, P], int]


def verb(*examples: str, prints: bool = True) -> Callable[[Verb[P]], click.Command]:
    """Make a command of a function that returns its exit status. Adds the options that every verb has.

    A verb that prints an answer has `--json` too.
    """

    def made(function: Verb[P]) -> click.Command:
        @wraps(function)
        def run(
            server: str | None,
            key: str | None,
            project: str | None,
            principals: tuple[str, ...],
            as_json: bool = False,
            **given: Any,
        ) -> None:
            try:
                sys.exit(cast("Any", function)(Invocation(server, key, project, as_json, named(principals)), **given))
            except UnicodeEncodeError as error:
                # what is printed raises none: an argument could not be sent
                raise VerbFailed(NOT_UTF_8) from error

        command: Any = run
        own = len(getattr(run, "__click_params__", []))
        for option in reversed((*OPTIONS, AS_JSON) if prints else OPTIONS):
            command = option(command)
        # decorators are applied from the last one up: the verb's own options come first in its help
        parameters = command.__click_params__
        command.__click_params__ = [*parameters[own:], *parameters[:own]]
        lines = "\n".join(f"  {example}" for example in examples)
        return click.command(epilog=f"\b\nExamples:\n{lines}")(command)

    return made


AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, with the fields of the HTTP API."
)
OPTIONS = (
    click.option(
        "--server",
        envvar="FOLDEX_URL",
        show_envvar=True,
        metavar="URL",
        help="Address of the service; default: the one on this machine.",
    ),
    click.option("--key", envvar="FOLDEX_API_KEY", show_envvar=True, metavar="KEY", help="API key."),
    click.option(
        "--project",
        envvar="FOLDEX_PROJECT",
        show_envvar=True,
        metavar="ID",
        help="Project to use; default: every project, and `default` for new tools.",
    ),
    click.option(
        "--as",
        "principals",
        multiple=True,
        metavar="PRINCIPAL",
        help="Act for this principal, such as user:ann@example.org; repeatable. AUTH=off ignores it.",
    ),
)

#: The names of these options, as verbs receive them.
COMMON_OPTIONS = frozenset({"server", "key", "project", "principals", "as_json"})

yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def has_terminal() -> bool:
    """Whether somebody may answer a question."""
    return sys.stdin.isatty()


def confirm(question: str, refusal: str, *, is_sure: bool, default: bool) -> None:
    """Ask the user, unless `is_sure`; Enter alone means `default`.

    Raises `VerbFailed` with `refusal` if nobody can answer, or the answer is no.
    """
    if is_sure:
        return
    if not has_terminal():
        raise VerbFailed(refusal)
    if not click.confirm(question, default=default, err=True):
        raise VerbFailed("Nothing was done; answer with yes, or give --yes.")
