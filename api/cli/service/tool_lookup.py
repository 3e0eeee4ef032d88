"""Finds the tool that a user means by an id, a name or a path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from api.agents.folders import BUCKET, FolderPart, at, called, is_id, is_name, nearest
from api.cli.invocation import VerbFailed
from api.cli.service.connection import Connection
from api.stack.record import has_run
from schemas.wording import amount

if TYPE_CHECKING:
    from foldex_client import Status, Tool

#: Path of the calls for tools.
TOOLS = "/api/tools/search"
#: Tools of one page of their list, the most that the service gives.
PAGE = 1000


def tools_of(service: Connection) -> list[Tool]:
    """Every tool that the caller may see, oldest first."""
    project = service.invocation.project
    query = urlencode({"limit": PAGE, **({"project_id": project} if project else {})})
    page = service.call_locally("GET", f"{TOOLS}?{query}")
    if page is not None and page.next_cursor is None:
        return cast("list[Tool]", page["items"])
    return list(service.foldex.tools.list(project, page_size=PAGE))


def states_of(service: Connection, tools: Sequence[Tool]) -> Iterator[tuple[Tool, Status]]:
    """Each tool with its state. Those that were deleted since they were listed are left out."""
    statuses = service.foldex.tools.statuses(service.invocation.project, page_size=PAGE)
    states = {state.tool_id: state for state in statuses}
    for tool in tools:
        if tool.tool_id in states:
            yield tool, states[tool.tool_id]


def find_tool(service: Connection, word: str) -> Tool:
    """The tool that a word names: its id, its name, or the path of its folder. Raises `VerbFailed`."""
    if is_id(word):
        return _by_id(service, word)
    found = at(tools_of(service), word, path_of(word))
    if not found:
        raise VerbFailed(f"No tool has the id, name or path {word!r}; `foldex tools` lists them.")
    return _only(found, word)


def covering(service: Connection, word: str) -> FolderPart | None:
    """The tool that a word names, or else the one with the nearest folder above the path; None if there is none."""
    if is_id(word):
        return FolderPart(_by_id(service, word))
    tools = tools_of(service)
    path = path_of(word)
    found = nearest(tools, path)
    if found is not None and (os.path.exists(path) or not is_name(word)):  # noqa: PTH110 - strings as they are
        return FolderPart(found.tool, _as_kept(found.below))
    names = called(tools, word)
    return FolderPart(_only(names, word)) if names else None


def path_of(word: str) -> str:
    """The real path of a word; the address of a bucket stays as it is. Raises `VerbFailed`."""
    if not word:
        # an unset variable of a script must not mean the present directory
        raise VerbFailed("The name of the folder is empty; name one, such as . for the present directory.")
    if word.startswith(BUCKET):
        if not word.removeprefix(BUCKET).strip("/"):
            raise VerbFailed(f"{word} names no bucket; write it as s3://bucket/prefix.")
        return word.rstrip("/")
    try:
        return os.path.realpath(os.path.expanduser(word))  # noqa: PTH111 - strings as they are
    except FileNotFoundError as error:
        raise VerbFailed("The present directory no longer exists; change to one that does.") from error


def check_folder(word: str) -> str:
    """The real path of a folder that can be listed. Raises `VerbFailed` for anything else."""
    place = path_of(word)
    try:
        os.scandir(place).close()
    except FileNotFoundError as error:
        raise VerbFailed(f"{word} does not exist; name an existing folder.") from error
    except NotADirectoryError as error:
        remedy = "name its folder, and choose files with `foldex index FOLDER --config include=NAME`"
        raise VerbFailed(f"{word} is a file; {remedy}.") from error
    except OSError as error:
        raise VerbFailed(f"{word} cannot be read ({error.strerror}); name a folder that you may list.") from error
    return place


def indexable_place(word: str, *, is_here: bool) -> str:
    """The real path of a folder, checked if it is on this machine, or a bucket's address. Raises `VerbFailed`."""
    return check_folder(word) if is_here and not word.startswith(BUCKET) else path_of(word)


def check_before_start(word: str, home: Path) -> None:
    """Raise `VerbFailed` if no tool of the stack in `home` can be meant by a word, and it names no folder either."""
    may_be_tool = has_run(home) and (is_name(word) or os.path.lexists(path_of(word)))
    if not may_be_tool and not word.startswith(BUCKET):
        check_folder(word)


def _by_id(service: Connection, tool_id: str) -> Tool:
    found = service.call_locally("GET", f"{TOOLS}/{tool_id}")
    if found is not None:
        return cast("Tool", found)
    client = service.foldex
    from foldex_client import NotFound

    try:
        return client.tools.get(tool_id)
    except NotFound as error:
        raise VerbFailed(f"No tool has the id {tool_id}; `foldex tools` lists them.") from error


def _as_kept(path: str) -> str:
    """A path as the service knows it: with escapes for bytes of names that are no UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _only(found: list[Tool], word: str) -> Tool:
    if len(found) > 1:
        ids = ", ".join(tool.tool_id for tool in found)
        raise VerbFailed(f"{amount(len(found), 'tool')} are called {word!r}; name one by its id: {ids}.")
    return found[0]
