"""Has folders indexed that no tool covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from api.http.disconnect import Disconnect
from api.search.across.paths import RequestedLocation
from schemas.content.source import AnySource
from schemas.errors import FoldexError
from schemas.queries.search import Note
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.tools import ToolOver

#: Finds or creates the tool over a folder.
IndexFolder = Callable[[AnySource], ToolOver]


def index_missing(
    resources: Resources, locations: Sequence[RequestedLocation], index_folder: IndexFolder, disconnect: Disconnect
) -> list[Note]:
    """Have the folders among uncovered locations indexed. Returns notes that name new tools, and what failed.

    A folder is left to a tool above it that is still indexing. Raises `CallerLeft`.
    """
    notes = []
    for location in locations:
        disconnect.check()
        if location.key is None and not _is_left(resources, location):
            notes += _notes(location, index_folder)
    return notes


def _is_left(resources: Resources, location: RequestedLocation) -> bool:
    """Whether a tool above may still come to it."""
    return bool(location.tools_above) and tools.any_busy(resources.pool, location.tools_above)


def _notes(location: RequestedLocation, index_folder: IndexFolder) -> list[Note]:
    try:
        tool = index_folder(location.source)
    except FoldexError as error:
        return [Note(code=error.code, detail=f"{location.path} was not indexed. {error.message}")]
    if not tool.is_new:
        return []
    detail = f"No tool covered {location.path}, so the new tool {tool.name} ({tool.tool_id}) indexes it."
    return [Note(code="tool_created", detail=detail)]
