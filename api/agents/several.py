"""Searches several folders with one request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict, Unpack

from pydantic import BaseModel

from api.agents.access import CallRefused, ServiceAccess, as_it_is
from api.agents.folders import FolderPart, root_of
from foldex_client.models import AcrossAnswer, AcrossSearchOptions, Tool
from schemas.wording import amount

#: Folders that the service searches with one request.
MAX_FOLDERS = 16


class SearchedFolder(BaseModel):
    """One of several folders that were searched."""

    folder: str
    indexed_files: int | None
    total_files: int | None


async def search_several(
    access: ServiceAccess, places: Sequence[FolderPart], query: str, **options: Unpack[AcrossSearchOptions]
) -> AcrossAnswer:
    """The best hits of all places. Raises `CallRefused`."""
    projects = {place.tool.project_id for place in places}
    if len(projects) > 1:
        raise CallRefused("These folders belong to different projects; ask for those of one project at a time.")
    return await access.foldex.search(projects.pop(), query, **_where(places), **options)


class _Where(TypedDict, total=False):
    tools: list[Tool]
    paths: list[str]


def _where(places: Sequence[FolderPart]) -> _Where:
    """The targets of the request: whole folders, or paths for parts of folders."""
    if not any(place.below for place in places):
        return {"tools": [place.tool for place in places]}
    roots = [root_of(place.tool, as_it_is) for place in places]
    if not all(roots):
        raise CallRefused("A part of a folder cannot be searched together with nodes; ask for them one at a time.")
    return {"paths": [f"{root}/{place.below}".rstrip("/") for root, place in zip(roots, places, strict=True)]}


def labels(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Labels of folders by the id of their tool: the name, or the id if another folder has the same name."""
    found = dict(named)
    names = list(found.values())
    return {tool_id: name if names.count(name) == 1 else tool_id for tool_id, name in found.items()}


def summed(counts: Iterable[int | None]) -> int | None:
    """The sum; None if one is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


def several_footer(searched: Sequence[SearchedFolder], notes: Iterable[str]) -> str:
    """The folders that were searched, the share of each that was searched, and the gaps of the answer."""
    counted = [part for part in searched if part.total_files is not None]
    each = ", ".join(f"{part.folder} {part.indexed_files} of {part.total_files}" for part in counted)
    first = f"Searched {amount(len(searched), 'folder')}{'; files indexed: ' if counted else ''}{each}."
    return "\n".join([first, *(f"Note: {note}" for note in notes)])


def grouped(notes: Iterable[tuple[str, str]]) -> list[str]:
    """The notes of folders, each once with all folders that it is about."""
    about: dict[str, list[str]] = {}
    for folder, note in notes:
        about.setdefault(note, []).append(folder)
    return [f"{', '.join(folders)}: {note}" for note, folders in about.items()]
