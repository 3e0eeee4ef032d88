"""Calls of an agent to the service, and the folder that they mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from api.agents.folders import BUCKET, DEFAULT_PROJECT, FolderPart, at, called, is_id, nearest, root_of
from foldex_client import AsyncFoldex, FoldexError, NotFound, Tool
from schemas.wording import amount

#: Tools of one page of their list, the most that the service gives.
PAGE = 1000
#: Folders that an error names.
NAMED = 20


class CallRefused(Exception):
    """A call cannot be carried out. The message is a sentence that names the remedy."""


@dataclass(frozen=True)
class ServiceAccess:
    """The service, as the caller of one tool may use it."""

    foldex: AsyncFoldex
    #: The project of the caller's key; None if it is not known, or if there are no keys.
    project: str | None
    #: The path that a word means, on the machine of the service; "" if it is none.
    path_of: Callable[[str], str]
    #: What all paths are compared as.
    resolved: Callable[[str], str]
    #: The folder in which the agent works, if that is on the machine of the service.
    here: str | None
    #: Turns an error of the client library into a sentence.
    sentence: Callable[[FoldexError], str]
    has_key: bool

    async def tools(self) -> list[Tool]:
        """Every tool that the caller may see, oldest first."""
        return [tool async for tool in self.foldex.tools.list(self.project, page_size=PAGE)]

    async def place(self, word: str | None) -> FolderPart:
        """The folder, or the part of one, that a word means. Without one: where the agent works, or the only folder.

        Raises `CallRefused`.
        """
        if word is not None and is_id(word):
            return FolderPart(await self._of_id(word))
        tools = await self.tools()
        if not word:
            return self._default(tools)
        found = called(tools, word)
        if len(found) == 1:
            return FolderPart(found[0])
        place = None if found else nearest(tools, self.path_of(word), self.resolved)
        if place is None:
            raise self._which(found, tools, word)
        return place

    async def places(self, words: str | Sequence[str] | None) -> list[FolderPart]:
        """The folders, or parts of folders, that words mean.

        None is where the agent works, or else every folder of the project; an empty list is every folder. Raises
        `CallRefused`.
        """
        if isinstance(words, str) and words:
            return [await self.place(words)]
        if words:
            found = [await self.place(word) for word in words]
            return list({(place.tool.tool_id, place.below): place for place in found}.values())
        tools = await self.tools()
        around = nearest(tools, self.here, self.resolved) if words is None and self.here else None
        return [around] if around else [FolderPart(tool) for tool in self._every(tools)]

    async def exactly(self, word: str) -> Tool:
        """The one tool that a word names by its id, its name or the path of its folder. Raises `CallRefused`."""
        if is_id(word):
            return await self._of_id(word)
        tools = await self.tools()
        found = at(tools, word, self.path_of(word), self.resolved)
        if len(found) != 1:
            raise self._which(found, tools, word)
        return found[0]

    async def project_of_new(self) -> str:
        """The project of new tools. Raises `CallRefused` if the project of the key cannot be known."""
        if self.project is not None:
            return self.project
        if not self.has_key:
            return DEFAULT_PROJECT
        tools = await self.tools()
        if not tools:
            raise CallRefused("The project of the key is not known yet; start `foldex mcp` with --project.")
        return tools[0].project_id

    async def _of_id(self, tool_id: str) -> Tool:
        try:
            return await self.foldex.tools.get(tool_id)
        except NotFound:
            raise CallRefused(f"No folder has the id {tool_id!r}; list_folders shows those that there are.") from None

    def _default(self, tools: list[Tool]) -> FolderPart:
        around = self.here and nearest(tools, self.here, self.resolved)
        if around:
            return around
        if len(tools) == 1:
            return FolderPart(tools[0])
        raise self._which([], tools, None)

    def _every(self, tools: list[Tool]) -> list[Tool]:
        """The tools of the one project that is meant, one for each index."""
        projects = {tool.project_id for tool in tools}
        project = DEFAULT_PROJECT if DEFAULT_PROJECT in projects else next(iter(projects), None)
        if not tools or (len(projects) > 1 and project != DEFAULT_PROJECT):
            raise self._which([], tools, None)
        return list({tool.index.index_id: tool for tool in tools if tool.project_id == project}.values())

    def _which(self, found: list[Tool], tools: list[Tool], word: str | None) -> CallRefused:
        listed = "; ".join(name_of(tool) for tool in (found or tools)[:NAMED])
        if not tools:
            return CallRefused("No folder is indexed yet; index one with index_folder.")
        if word is None:
            return CallRefused(f"Several folders are indexed; say which one with `folder`: {listed}.")
        if found:
            ids = "; ".join(f"{tool.tool_id} ({root_of(tool, self.resolved) or tool.name})" for tool in found[:NAMED])
            return CallRefused(f"{amount(len(found), 'folder')} are called {word!r}; name one by its id: {ids}.")
        return CallRefused(
            f"No indexed folder is called {word!r} or holds that path; choose one of these, or use index_folder: "
            f"{listed}."
        )


def name_of(tool: Tool) -> str:
    """A tool's name and place, such as `notes (/home/ann/notes)`."""
    where = root_of(tool, as_it_is) or f"node {tool.node_id}"
    return where if tool.name == where else f"{tool.name} ({where})"


def as_it_is(path: str) -> str:
    """The path itself: callers from elsewhere must not learn where links of this machine lead."""
    return path


def path_for_others(word: str) -> str:
    """The path of a word of a caller from elsewhere."""
    return word.rstrip("/") if word.startswith(BUCKET) else os.path.normpath(word)
