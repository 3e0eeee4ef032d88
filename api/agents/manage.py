"""The tools that list folders, index them, and keep them up to date."""

from __future__ import annotations

import time
from typing import Any

from anyio import create_task_group
from pydantic import BaseModel, Field

from api.agents.access import ServiceAccess, name_of
from api.agents.fitting import ResultEntry
from api.agents.folders import root_of, target
from api.agents.tool import AgentTool, FolderAnswer, FolderArguments, Progress, ToolArguments, ToolReply, told, warnings
from foldex_client import FoldexError, IndexingFailed, Status, Tool, WaitTimedOut
from foldex_client.calls import Until
from schemas.wording import amount

#: Tokens of a list of folders.
LIST_TOKENS = 4000
#: Maximum seconds that a call waits. Agents give up on calls that take minutes.
MAX_WAIT_SECONDS = 600
#: Seconds that a call waits for vectors once words are searchable: a small folder is complete by then.
VECTOR_SECONDS = 2.0

Wait = Field(default=60, ge=0, le=MAX_WAIT_SECONDS)


class FolderState(FolderAnswer):
    """A folder and its index. `tree`: whether it has summaries to search."""

    id: str
    state: str
    progress: float | None
    indexed_files: int | None
    searchable_files: int | None
    total_files: int | None
    skipped_files: int | None
    failed_files: int | None
    chunks: int | None
    vector_chunks: int | None
    eta_seconds: float | None = None
    model: str
    tree: bool


class ListFoldersArguments(ToolArguments):
    """Arguments of `list_folders`."""


class ListedFolder(BaseModel):
    """An indexed folder."""

    id: str
    name: str
    path: str | None = None
    project: str
    state: str


class FoldersAnswer(BaseModel):
    """Answer of `list_folders`."""

    folders: list[ListedFolder]
    cut: bool


async def list_folders(access: ServiceAccess, _: ListFoldersArguments, __: Progress) -> ToolReply:
    """List every folder that the caller may see."""
    tools = await access.tools()
    are_several = len({tool.project_id for tool in tools}) > 1
    text, fit = told(
        [_folder(tool, with_project=are_several) for tool in tools],
        f"{amount(len(tools), 'indexed folder')}.",
        LIST_TOKENS,
        remedy="Name a folder by its path.",
        nothing="No folder is indexed yet; index one with index_folder.",
    )
    return ToolReply(text, FoldersAnswer(folders=fit.items, cut=fit.is_partial))


def _folder(tool: Tool, *, with_project: bool) -> ResultEntry[ListedFolder]:
    path = root_of(tool, str) or None
    said = [tool.name, path or f"node {tool.node_id}", tool.task, *([f"project {tool.project_id}"] * with_project)]
    listed = ListedFolder(id=tool.tool_id, name=tool.name, path=path, project=tool.project_id, state=tool.task)
    return ResultEntry(tool.name, "  ".join([*said, tool.tool_id]), listed)


class IndexFolderArguments(ToolArguments):
    """Arguments of `index_folder`."""

    path: str = Field(min_length=1, max_length=4096, description="Absolute, or s3://bucket/prefix.")
    name: str | None = Field(default=None, min_length=1, max_length=200)
    wait_seconds: float = Wait


async def index_folder(access: ServiceAccess, asked: IndexFolderArguments, progress: Progress) -> ToolReply:
    """Index a folder, or bring the index that it has up to date."""
    place = access.path_of(asked.path) or asked.path
    existing = [tool for tool in await access.tools() if root_of(tool, access.resolved) == place]
    if existing:
        return await _refresh(access, existing[-1], progress, asked.wait_seconds)
    project = await access.project_of_new()
    # another agent may index it at the same time
    tool = await access.foldex.tools.create(project, **target(place), name=asked.name, reuse=True, wait=False)
    return await _wait(access, tool, progress, asked.wait_seconds)


class IndexStatusArguments(FolderArguments):
    """Arguments of `index_status`."""


async def index_status(access: ServiceAccess, asked: IndexStatusArguments, _: Progress) -> ToolReply:
    """Tell how far the index of a folder is."""
    tool = (await access.place(asked.folder)).tool
    return await state(access, tool, await access.foldex.tools.status(tool))


class RefreshArguments(FolderArguments):
    """Arguments of `refresh`."""

    wait_seconds: float = Wait


async def refresh(access: ServiceAccess, asked: RefreshArguments, progress: Progress) -> ToolReply:
    """Index what changed in a folder."""
    place = await access.place(asked.folder)
    return await _refresh(access, place.tool, progress, asked.wait_seconds)


class DeleteFolderArguments(ToolArguments):
    """Arguments of `delete_folder`."""

    folder: str = Field(min_length=1, max_length=4096, description="Exact name, path or id.")


class DeletedAnswer(BaseModel):
    """Answer of `delete_folder`."""

    deleted: str
    id: str


async def delete_folder(access: ServiceAccess, asked: DeleteFolderArguments, _: Progress) -> ToolReply:
    """Delete the index of a folder."""
    tool = await access.exactly(asked.folder)
    await access.foldex.tools.delete(tool)
    said = f"Deleted the index of {name_of(tool)}. The files themselves are untouched."
    return ToolReply(said, DeletedAnswer(deleted=name_of(tool), id=tool.tool_id))


async def _refresh(access: ServiceAccess, tool: Tool, progress: Progress, seconds: float) -> ToolReply:
    await access.foldex.tools.reindex(tool)
    return await _wait(access, tool, progress, seconds)


async def _wait(access: ServiceAccess, tool: Tool, progress: Progress, seconds: float) -> ToolReply:
    """The state of a folder once its words are indexed, or after `seconds`. Its vectors get a moment more."""
    ends = time.monotonic() + seconds
    ended = await ended_run(access, tool, progress, "words", seconds)
    if isinstance(ended, Status) and not ended.ended:
        ended = await ended_run(access, tool, progress, "ready", min(VECTOR_SECONDS, max(0.0, ends - time.monotonic())))
    if isinstance(ended, FoldexError) and not isinstance(ended, WaitTimedOut | IndexingFailed):
        raise ended
    now = ended if isinstance(ended, Status) else await access.foldex.tools.status(tool)
    return await state(access, tool, now)


async def ended_run(
    access: ServiceAccess, tool: Tool, progress: Progress, until: Until, seconds: float
) -> Status | FoldexError:
    """The status once a tool is so far, or why it is not within `seconds`."""
    ended: Status | FoldexError
    async with create_task_group() as group:
        # an error that leaves the block would be wrapped in an `ExceptionGroup`
        try:
            ended = await access.foldex.tools.wait(
                tool, until=until, timeout=seconds, on_progress=lambda now: group.start_soon(progress, now)
            )
        except FoldexError as error:
            ended = error
    return ended


async def state(access: ServiceAccess, tool: Tool, now: Status) -> ToolReply:
    """Describe an index to an agent."""
    has_tree = tool.config.raptor is not None and tool.config.raptor.enabled
    notes = warnings(now)
    if has_tree:
        tree = await access.foldex.trees.status(tool)
        has_tree = tree.has_index
        size = "" if tree.summary_nodes is None else f", {amount(tree.summary_nodes, 'summary', 'summaries')}"
        notes.append(f"The summary tree is {tree.indexing_status}{size}.")
    counts = _counts(now)
    if now.eta_seconds is not None and now.searchable_at is None:
        counts.append(f"about {now.eta_seconds:.0f} s left")
    if now.skipped_files or now.failed_files:
        notes.append("list_files with `status` tells why files are skipped or failed.")
    text = "\n".join(
        [
            f"{name_of(tool)}: {', '.join([now.status, *counts])}, model {tool.index.model}",
            *(f"Note: {n}" for n in notes),
        ]
    )
    data = FolderState(
        folder=name_of(tool),
        notes=notes,
        id=tool.tool_id,
        state=now.status,
        progress=now.progress,
        indexed_files=now.indexed_files,
        searchable_files=now.searchable_files,
        total_files=now.total_files,
        skipped_files=now.skipped_files,
        failed_files=now.failed_files,
        chunks=now.total_chunks,
        vector_chunks=now.vector_chunks,
        eta_seconds=now.eta_seconds,
        model=tool.index.model,
        tree=has_tree,
    )
    return ToolReply(text, data)


def _counts(now: Status) -> list[str]:
    """The counts of a status in words; none for a caller who may not read all files."""
    if now.total_files is None:
        return []
    counts = [
        f"{now.indexed_files} of {amount(now.total_files, 'file')} indexed",
        amount(now.total_chunks or 0, "chunk"),
    ]
    if (now.searchable_files or 0) > (now.indexed_files or 0):
        counts[1:1] = [f"{now.searchable_files} searchable by words"]
    outcomes = (now.skipped_files, "skipped"), (now.failed_files, "failed")
    return counts + [f"{number} {what}" for number, what in outcomes if number]


INDEX_FOLDER: AgentTool[Any] = AgentTool(
    "index_folder",
    "Index a folder, or bring its index up to date.",
    IndexFolderArguments,
    index_folder,
    "write",
)
REFRESH: AgentTool[Any] = AgentTool(
    "refresh",
    "Index what changed, such as after edits.",
    RefreshArguments,
    refresh,
    "write",
)
TOOLS: tuple[AgentTool[Any], ...] = (
    AgentTool(
        "list_folders",
        "List the indexed folders.",
        ListFoldersArguments,
        list_folders,
        "search",
    ),
    INDEX_FOLDER,
    AgentTool(
        "index_status",
        "Tell how far an index is.",
        IndexStatusArguments,
        index_status,
        "search",
    ),
    REFRESH,
)
#: Offered only if the operator allows it.
DELETE: AgentTool[Any] = AgentTool(
    "delete_folder",
    "Delete an index for everybody, for good. Files stay.",
    DeleteFolderArguments,
    delete_folder,
    "write",
    deletes=True,
)
