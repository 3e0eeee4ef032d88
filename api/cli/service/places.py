"""The parts of folders that a search is about, by the words of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from api.agents.folders import BUCKET, FolderPart, is_above, root_of
from api.cli.invocation import VerbFailed, confirm
from api.cli.service.connection import Check, Connection
from api.cli.service.folder_tools import start_indexing
from api.cli.service.tool_lookup import check_before_start, covering, path_of, tools_of
from api.cli.terminal import output
from api.cli.terminal.progress import going_on, wait
from api.stack.record import has_run
from schemas.wording import amount, noun

if TYPE_CHECKING:
    from foldex_client import Tool
    from foldex_client.calls import Until


class IndexingConsent:
    """Whether the user agrees that the folder of a search is indexed. The question is put once."""

    def __init__(self, path: str, *, is_sure: bool) -> None:
        self._path, self._is_agreed = path, is_sure
        #: Whether no question is asked at all.
        self.is_sure = is_sure

    def before_start(self, home: Path) -> None:
        """Raise `VerbFailed` if starting a stack in `home` would be of no use."""
        check_before_start(self._path, home)
        if not has_run(home):
            self.ask()

    def ask(self) -> None:
        """Raise `VerbFailed` unless the user agrees."""
        place = path_of(self._path)
        confirm(
            f"{place} is not indexed yet. Index it now?",
            f"{place} is not indexed; run `foldex index` with it first, or give --yes.",
            is_sure=self._is_agreed,
            default=True,
        )
        self._is_agreed = True


def ask_for(paths: Iterable[str], *, is_sure: bool) -> dict[str, IndexingConsent]:
    """The consent for each path of a search."""
    return {path: IndexingConsent(path, is_sure=is_sure) for path in paths}


def before_start(consents: Mapping[str, IndexingConsent]) -> Check:
    """Check and ask everything that a search needs before it starts a stack."""

    def check(home: Path) -> None:
        for consent in consents.values():
            consent.before_start(home)

    return check


def find_places(
    service: Connection, path: str, consent: IndexingConsent, until: Until | None = None, *, is_named: bool = True
) -> list[FolderPart]:
    """The tools that a search of a path is about. One that is new is waited for, and others until they are "ready".

    A folder without one stands for the tools of the folders below it. If the path is not named by the user, and nothing
    there is indexed, all tools are meant. Otherwise the folder is indexed, if the user agrees. Raises `VerbFailed`.
    """
    found = _covering(service, path, until)
    if found is not None:
        return [found]
    # who is sure wants the folder itself
    others = [] if consent.is_sure else _below_or_all(service, path, is_named=is_named)
    for tool in others:
        _await(service, tool, until)
    return [*map(FolderPart, others)] or [_index(service, path, consent, until)]


def _covering(service: Connection, path: str, until: Until | None) -> FolderPart | None:
    """The tool whose folder has a path, or that a word names. Raises `VerbFailed` if the path does not exist."""
    found = covering(service, path)
    if found is not None:
        _await(service, found.tool, until)
        if found.below and service.is_here and not os.path.lexists(path_of(path)):
            raise VerbFailed(f"{path} does not exist; name an existing file or folder, or a tool (`foldex tools`).")
    return found


def _await(service: Connection, tool: Tool, until: Until | None) -> None:
    """Wait for a tool that is being indexed until it is "ready", or say so if nothing is waited for."""
    if tool.task in {"pending", "indexing"}:
        if until == "ready":
            wait(service, tool)
        elif until is None:
            output.note(f"{tool.name} is still being indexed; results are those of the files so far.")


def _below_or_all(service: Connection, path: str, *, is_named: bool) -> list[Tool]:
    """The newest tool of each folder below a path that no tool covers; those of all folders if no path is named."""
    folders = {root_of(tool) or tool.tool_id: tool for tool in tools_of(service)}
    place = path_of(path)
    roots = _outermost({root: tool for root, tool in folders.items() if is_above(place, root)})
    below = [folders[root] for root in roots]
    if below:
        output.note(f"{place} is not indexed, but {amount(len(below), 'folder')} below it: searching there.")
    elif folders and not is_named:
        below = [*folders.values()]
        all_folders = noun(len(below), "the only folder", f"all {len(below)} folders")
        output.note(f"{place} is not indexed (`foldex index .`): searching {all_folders}.")
    return below


def _outermost(folders: Mapping[str, Tool]) -> list[str]:
    """The folders without those that lie in another one, whose tool has all files below it."""
    whole = [root for root, tool in folders.items() if not (tool.config.include or tool.config.exclude)]
    return [root for root in folders if not any(each != root and is_above(each, root) for each in whole)]


def _index(service: Connection, path: str, consent: IndexingConsent, until: Until | None) -> FolderPart:
    place = path_of(path)
    if service.is_here and not place.startswith(BUCKET) and not Path(place).is_dir():
        raise VerbFailed(f"{path!r} is neither a folder nor a tool; `foldex tools` lists the tools.")
    consent.ask()
    with going_on(path):
        tool = start_indexing(service, path, None, {}, is_sure=consent.is_sure)
        wait(service, tool, until or "words")
    return FolderPart(tool)
