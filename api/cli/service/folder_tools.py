"""Makes the tool of a folder, or brings the one that exists up to date."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.agents.folders import BUCKET, DEFAULT_PROJECT, root_of, target
from api.cli.invocation import VerbFailed
from api.cli.service.connection import Connection
from api.cli.service.large_folders import ask_about
from api.cli.service.tool_lookup import indexable_place, tools_of

if TYPE_CHECKING:
    from foldex_client import Tool
    from foldex_client.estimate import Estimate

#: Fields of a config that are lists: their values are separated by commas, or given several times.
LISTS = frozenset({"include", "exclude", "types", "keep", "containers"})


def config_of(settings: Iterable[str]) -> dict[str, object]:
    """The config that `k=v` settings describe. Raises `VerbFailed` for one without `=`."""
    lists: dict[str, list[str]] = {}
    config: dict[str, object] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise VerbFailed(f"--config {setting!r} has no name and value; write it as name=value, such as watch=true.")
        if name in LISTS:
            lists.setdefault(name, []).extend(filter(None, value.split(",")))
        else:
            config[name] = _value(value)
    return {**config, **lists}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def start_indexing(
    service: Connection, path: str, name: str | None, config: dict[str, object], *, is_sure: bool = False
) -> Tool:
    """The tool over a folder or bucket, which is being indexed from now on. Raises `VerbFailed`.

    Asks before a new tool over a very large place is made, unless `is_sure`.
    """
    place = _place(service, path)
    tools = tools_of(service)
    mine = [tool for tool in tools if root_of(tool) == place]
    project = "" if mine else project_of(service, tools)
    if not mine:
        ask_about(service, path, place, lambda: estimate_tool(service, path, config), is_sure=is_sure)
    with _permit(service, place):
        return _update(service, mine[-1], name, config) if mine else _new(service, project, place, name, config)


def _new(service: Connection, project: str, place: str, name: str | None, config: dict[str, object]) -> Tool:
    tool = service.foldex.tools.create(project, **target(place), name=name, config=config, reuse=True, wait=False)
    # another command may have made it a moment ago, in its own way
    return tool if _fits(tool, name, config) else _change(service, tool, name, config)


def _update(service: Connection, tool: Tool, name: str | None, config: dict[str, object]) -> Tool:
    tool = _change(service, tool, name, config) if name or config else tool
    # a config that needs another index has started to build it
    if tool.updating is None:
        service.foldex.tools.reindex(tool.tool_id)
    return tool


def _fits(tool: Tool, name: str | None, config: dict[str, object]) -> bool:
    present = tool.config.model_dump(mode="json")
    return name in {None, tool.name} and present | config == present


def _change(service: Connection, tool: Tool, name: str | None, config: dict[str, object]) -> Tool:
    return service.foldex.tools.update(tool.tool_id, name=name, config=config or None)


def estimate_tool(service: Connection, path: str, config: dict[str, object]) -> Estimate:
    """Estimate what a tool over a folder or bucket would read, skip and pay. Raises `VerbFailed`."""
    place = _place(service, path)
    project = project_of(service, tools_of(service))
    with _permit(service, place, makes_tool=False):
        return service.foldex.tools.estimate(project, **target(place), config=config)


def _place(service: Connection, path: str) -> str:
    """The real path of a folder, or a bucket's address. Raises `VerbFailed`."""
    place = indexable_place(path, is_here=service.is_here)
    place.encode()  # what is no UTF-8 cannot be sent, nor be allowed
    return place


@contextmanager
def _permit(service: Connection, place: str, *, makes_tool: bool = True) -> Iterator[None]:
    """Let the embedded stack read a folder. It may go on to do so if there is a tool over it in the end."""
    if service.home is None or place.startswith(BUCKET) or not allow_folder(service.home, place):
        yield
        return
    from foldex_client import FoldexError

    try:
        yield
    except BaseException as error:  # Ctrl-C too
        # without an answer the tool may have been made
        if not makes_tool or (isinstance(error, FoldexError) and error.status is not None):
            with suppress(FoldexError):
                forget_unused(service, place)
        raise
    forget_unused(service, place)


def forget_unused(service: Connection, place: str) -> None:
    """Let the embedded stack no longer read a folder, unless there is a tool over it."""
    if service.home is None or any(root_of(tool) == place for tool in tools_of(service)):
        return
    from worker.machine.named_folders import forget_folder, named_folders_file

    forget_folder(named_folders_file(service.home), place)


def project_of(service: Connection, tools: list[Tool]) -> str:
    """The project of new tools: the one that was named, else with a key that of the tools it sees."""
    if service.invocation.project:
        return service.invocation.project
    if service.invocation.key is None:
        return DEFAULT_PROJECT
    if not tools:
        raise VerbFailed("The project of the key is not known yet; name it with --project.")
    return tools[0].project_id


def allow_folder(home: Path, place: str) -> bool:
    """Let the embedded stack in `home` read a folder. Returns whether it could not before. Raises `VerbFailed`."""
    from worker.machine.named_folders import name_folder, named_folders_file

    try:
        return name_folder(named_folders_file(home), place)
    except OSError as error:
        raise VerbFailed(
            f"{home} cannot be written ({error.strerror}): run as its owner, or set FOLDEX_HOME."
        ) from error
