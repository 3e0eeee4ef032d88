"""Every call of the service, once for both clients."""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from foldex_client.addresses import AnyTool, Id, id_of, tool_path
from foldex_client.bodies import given, in_address, target
from foldex_client.both import Calls, Way, call, listing
from foldex_client.code_calls import CodeCalls
from foldex_client.errors import IndexingFailed, WaitTimedOut
from foldex_client.estimate import Estimate
from foldex_client.models import (
    Access,
    AcrossAnswer,
    AcrossSearchOptions,
    Answer,
    Around,
    File,
    FileText,
    GrepAnswer,
    Hosts,
    IndexerInfo,
    ListedChunk,
    MetadataFilter,
    MetadataKeys,
    Models,
    Page,
    Places,
    SearchOptions,
    Source,
    SourceInfo,
    Status,
    Tool,
    ToolConfig,
    ToolSearchOptions,
)
from foldex_client.projects import Nodes, Projects
from foldex_client.sending import Request, Session, path_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

Config = ToolConfig | Mapping[str, Any]
OnProgress = Callable[[Status], object]
#: The state at which a wait for a task ends.
Until = Literal["ready", "words"]

#: Seconds between the first polls of a task's status. Later pauses are this share of the wait so far.
FIRST_POLL_SECONDS = 0.2
POLL_SHARE = 0.1
MAX_POLL_SECONDS = 3.0
#: Seconds that a poll may take although its wait is about to end.
MIN_POLL_SECONDS = 1.0


class Tools(CodeCalls[Way]):
    """Search tools: create them, watch them index, and ask them."""

    @call
    async def create(
        self,
        project_id: str,
        *,
        path: str | os.PathLike[str] | None = None,
        bucket: str | None = None,
        prefix: str | None = None,
        node_id: str | None = None,
        json_pointer: str | None = None,
        source: Source | Mapping[str, Any] | None = None,
        name: str | None = None,
        config: Config | None = None,
        reuse: bool = False,
        wait: bool = True,
        until: Until = "ready",
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Tool:
        """Create a tool over a folder of the service's machine (`path`), a bucket, a node, or any `source`.

        With `reuse` a tool that is over it already is reindexed instead, and stays as it is. Returns once everything
        is indexed, once all files are found by their words with `until="words"`, or at once with `wait=False`. See
        `wait` for the other arguments.
        """
        body = given(project_id=project_id, json_pointer=json_pointer, name=name, config=config, reuse=reuse or None)
        body |= given(**target(path, bucket, prefix, node_id, source))
        tool = await self._session.send(Request("POST", tool_path(), Tool, body=body, repeatable=reuse))
        if not wait:
            return tool
        await _wait_for_end(self._session, tool, until, on_progress, timeout)
        return await self._session.send(Request("GET", tool_path(tool), Tool))

    @call
    def estimate(
        self,
        project_id: str,
        *,
        path: str | os.PathLike[str] | None = None,
        bucket: str | None = None,
        prefix: str | None = None,
        node_id: str | None = None,
        json_pointer: str | None = None,
        source: Source | Mapping[str, Any] | None = None,
        config: Config | None = None,
    ) -> Request[Estimate]:
        """Files that a tool would read or skip, and its cost. Nothing is created. Takes the arguments of `create`."""
        body = given(project_id=project_id, json_pointer=json_pointer, config=config, dry_run=True)
        body |= given(**target(path, bucket, prefix, node_id, source))
        return Request("POST", tool_path(), Estimate, body=body)

    @listing
    def list(self, project_id: str | None = None, *, page_size: int | None = None) -> Request[Page[Tool]]:
        """The tools of a project, oldest first. With a key, its project need not be named."""
        return Request("GET", tool_path(), Page[Tool], given(project_id=project_id, limit=page_size))

    @listing
    def statuses(self, project_id: str | None = None, *, page_size: int | None = None) -> Request[Page[Status]]:
        """The progress of the newest task of each tool of a project, oldest tool first."""
        return Request("GET", f"{tool_path()}/statuses", Page[Status], given(project_id=project_id, limit=page_size))

    @call
    def get(self, tool: AnyTool) -> Request[Tool]:
        """A tool with the state of its newest task."""
        return Request("GET", tool_path(tool), Tool)

    @call
    def update(self, tool: AnyTool, *, name: str | None = None, config: Config | None = None) -> Request[Tool]:
        """Rename a tool, or change how its folder is indexed. Fields of `config` that are not given stay.

        If the config needs another index, that is built beside the present one; see `updating`.
        """
        return Request("PATCH", tool_path(tool), Tool, body=given(name=name, config=config))

    @call
    def delete(self, tool: AnyTool) -> Request[None]:
        """Delete a tool, and its index unless another tool shares it."""
        return Request("DELETE", tool_path(tool), None)

    @call
    def status(self, tool: AnyTool) -> Request[Status]:
        """The progress of the newest task."""
        return _status(tool)

    @call
    async def wait(
        self,
        tool: AnyTool,
        *,
        until: Until = "ready",
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> Status:
        """Wait until the newest task is ready, at most `timeout` seconds. `on_progress` gets each status.

        Until its "words": until all files are found by their words, while their vectors may follow. Once it was
        answered, it outlives a service that is away for less than `deadline` seconds. Raises `IndexingFailed` if the
        task ends otherwise, and `WaitTimedOut`.
        """
        return await _wait_for_end(self._session, tool, until, on_progress, timeout)

    @listing
    def events(self, tool: AnyTool) -> AsyncGenerator[Status, None]:
        """The status: now, and at each change until the task has ended."""
        return self._session.events(Request("GET", tool_path(tool, "events"), Status))

    @listing
    def tasks(self, tool: AnyTool, *, page_size: int | None = None) -> Request[Page[Status]]:
        """The tasks over the tool's index, newest first."""
        return Request("GET", tool_path(tool, "tasks"), Page[Status], given(limit=page_size))

    @call
    def reindex(
        self,
        tool: AnyTool,
        *,
        full: bool | None = None,
        renew_text: bool | None = None,
        allow_removals: bool | None = None,
        paths: Sequence[str] | None = None,
    ) -> Request[Status]:
        """Index what changed in the folder, or only at `paths`; with `full`, read every file again.

        With `renew_text` too, code is embedded in the form of new indexes; `estimate_reindex` tells what that costs.
        """
        body = given(full=full, renew_text=renew_text, allow_removals=allow_removals, paths=paths)
        return Request("POST", tool_path(tool, "reindex"), Status, body=body, repeatable=False)

    @call
    def estimate_reindex(
        self, tool: AnyTool, *, full: bool | None = None, renew_text: bool | None = None
    ) -> Request[Estimate]:
        """Files that `reindex` would read or skip, and its cost. Nothing is started."""
        body = given(full=full, renew_text=renew_text, dry_run=True)
        return Request("POST", tool_path(tool, "reindex"), Estimate, body=body)

    @call
    def cancel(self, tool: AnyTool, *, task_id: str | None = None) -> Request[Status]:
        """Stop indexing, or only the task of this id. What is already searchable stays searchable."""
        return Request("POST", tool_path(tool, "cancel"), Status, given(task_id=task_id))

    @call
    def retry(self, tool: AnyTool) -> Request[Status]:
        """Retry failed and unfinished files."""
        return Request("POST", tool_path(tool, "retry"), Status, repeatable=False)

    @listing
    def files(
        self,
        tool: AnyTool,
        *,
        status: str | None = None,
        reason: str | None = None,
        q: str | None = None,
        metadata: MetadataFilter | None = None,
        page_size: int | None = None,
    ) -> Request[Page[File]]:
        """Every file with its outcome, by path: all, those of a status or reason, or those with `q` in their path."""
        query = given(status=status, reason=reason, q=q, metadata=in_address(metadata), limit=page_size)
        return Request("GET", tool_path(tool, "files"), Page[File], query)

    @call
    def metadata(self, tool: AnyTool, *, values: int | None = None) -> Request[MetadataKeys]:
        """The keys that searches can filter by, each with its most frequent values."""
        return Request("GET", tool_path(tool, "metadata"), MetadataKeys, given(values=values))

    @call
    def file(
        self,
        tool: AnyTool,
        file_id: Id,
        *,
        start_line: int | None = None,
        end_line: int | None = None,
        pointer: str | None = None,
    ) -> Request[FileText]:
        """The indexed text of a file: all of it, some lines (inclusive), or the value at a JSON pointer."""
        query = given(start_line=start_line, end_line=end_line, pointer=pointer)
        return Request("GET", tool_path(tool, "files", file_id), FileText, query)

    @call
    def search(
        self,
        tool: AnyTool,
        query: str | Sequence[str],
        **options: Unpack[ToolSearchOptions],
    ) -> Request[Answer]:
        """Find chunks by meaning and by keywords. Chunks matched by several queries rank higher."""
        return Request("POST", tool_path(tool, "query"), Answer, body=_asked(query, options, ToolSearchOptions))

    @call
    def grep(
        self,
        tool: AnyTool,
        pattern: str,
        *,
        regex: bool | None = None,
        case_sensitive: bool | None = None,
        word: bool | None = None,
        multiline: bool | None = None,
        path: str | None = None,
        glob: str | Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        metadata: MetadataFilter | None = None,
        before: int | None = None,
        after: int | None = None,
        max_per_file: int | None = None,
        head_limit: int | None = None,
        spans: bool | None = None,
        modified_after: str | None = None,
        modified_before: str | None = None,
    ) -> Request[GrepAnswer]:
        """Find the lines that match a pattern."""
        body = given(pattern=pattern, regex=regex, case_sensitive=case_sensitive, word=word, multiline=multiline)
        body |= given(path=path, glob=glob, types=types, metadata=metadata, before=before, after=after)
        body |= given(max_per_file=max_per_file, head_limit=head_limit, spans=spans)
        body |= given(modified_after=modified_after, modified_before=modified_before)
        return Request("POST", tool_path(tool, "grep"), GrepAnswer, body=body)

    @call
    def chunk(
        self,
        tool: AnyTool,
        chunk_id: Id,
        *,
        before: int | None = None,
        after: int | None = None,
        picture: bool | None = None,
    ) -> Request[Around]:
        """A chunk with its neighbours in the file; with `picture`, of a PDF also its page."""
        values = given(before=before, after=after, picture=picture)
        return Request("GET", tool_path(tool, "chunks", chunk_id), Around, values)

    @listing
    def chunks(self, tool: AnyTool, file_id: Id, *, page_size: int | None = None) -> Request[Page[ListedChunk]]:
        """The searchable chunks of a file, in its order."""
        return Request("GET", tool_path(tool, "files", file_id, "chunks"), Page[ListedChunk], given(limit=page_size))


class Client(Calls[Way]):
    """The part that both clients share."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.tools: Tools[Way] = Tools(session)
        self.nodes: Nodes[Way] = Nodes(session)
        self.projects: Projects[Way] = Projects(session)

    @call
    def search(
        self,
        project_id: str,
        query: str | Sequence[str],
        *,
        tools: Sequence[AnyTool] | None = None,
        paths: Sequence[str] | None = None,
        **options: Unpack[AcrossSearchOptions],
    ) -> Request[AcrossAnswer]:
        """Search several tools, or some paths, in parallel. The answer names tools that failed or were slow."""
        tool_ids = None if tools is None else [id_of(tool) for tool in tools]
        body = _asked(query, options, AcrossSearchOptions)
        body |= given(project_id=project_id, tool_ids=tool_ids, paths=paths)
        return Request("POST", "/api/search", AcrossAnswer, body=body)

    @call
    def models(self, *, check: bool | None = None) -> Request[Models]:
        """The models that are configured or allowed, by provider. `check` asks each whether it answers."""
        return Request("GET", path_of("api", "models"), Models, given(check=check))

    @call
    def sources(self) -> Request[list[SourceInfo]]:
        """The kinds of sources that a tool can have, with the schema of each."""
        return Request("GET", path_of("api", "sources"), list[SourceInfo])

    @call
    def places(
        self, path: str | None = None, *, cursor: str | None = None, limit: int | None = None
    ) -> Request[Places]:
        """The folders of the service's machine that may be indexed, or those in one of them, a page at a time."""
        return Request("GET", path_of("api", "places"), Places, given(path=path, cursor=cursor, limit=limit))

    @call
    def indexers(self) -> Request[list[IndexerInfo]]:
        """The kinds of index that a tool can have, with the schema of their config."""
        return Request("GET", path_of("api", "indexers"), list[IndexerInfo])

    @call
    def access(self) -> Request[Access]:
        """The project of the key, or all projects with tools where no key is needed."""
        return Request("GET", path_of("api", "access"), Access)

    @call
    def health(self) -> Request[dict[str, Any]]:
        """Tells that the service lives. Needs no key."""
        return Request("GET", "/healthz", dict[str, Any])

    @call
    def ready(self) -> Request[dict[str, Any]]:
        """Tells that the database answers too. Needs no key."""
        return Request("GET", "/readyz", dict[str, Any])

    @call
    def hosts(self) -> Request[Hosts]:
        """The processes on all hosts, and what differs between them."""
        return Request("GET", path_of("api", "hosts"), Hosts)


def _asked(query: str | Sequence[str], options: SearchOptions, allowed: type[SearchOptions]) -> dict[str, Any]:
    """The body of a search. A single query is ranked differently from a one-item list.

    Raises `TypeError` for an option that is not `allowed`, as a signature with all of them would.
    """
    if unknown := options.keys() - allowed.__annotations__.keys():
        raise TypeError(f"search() got an unexpected keyword argument {min(unknown)!r}")
    return given(**{"query" if isinstance(query, str) else "queries": query}, **options)


def _status(tool: AnyTool) -> Request[Status]:
    return Request("GET", tool_path(tool, "status"), Status)


async def _wait_for_end(
    session: Session, tool: AnyTool, until: Until, on_progress: OnProgress | None, timeout: float | None
) -> Status:
    """The status of a tool's newest task once that is ready, or has the words of all files."""
    ends, waited = time.monotonic() + (math.inf if timeout is None else timeout), 0.0
    was_answered = False
    while True:
        within = max(MIN_POLL_SECONDS, ends - time.monotonic())
        status = await session.send(_status(tool), within, again=was_answered)
        was_answered = True
        if on_progress is not None:
            on_progress(status)
        if status.status == "ready" or (until == "words" and status.searchable_at is not None and not status.ended):
            return status
        if status.ended:
            raise IndexingFailed.of(status)
        pause = min(MAX_POLL_SECONDS, max(FIRST_POLL_SECONDS, POLL_SHARE * waited))
        if time.monotonic() + pause >= ends:
            said = f"The task is {status.status}{status.done}, after {timeout:g} s; wait again to go on."
            raise WaitTimedOut(said, retryable=True)
        await session.link.sleep(pause)
        waited += pause
