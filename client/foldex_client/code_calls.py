"""The calls over the code in a tool's folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foldex_client.addresses import AnyTool, Id, tool_path
from foldex_client.bodies import given, in_address
from foldex_client.both import Calls, Way, call, listing
from foldex_client.models import CallGraph, Impact, MetadataFilter, Note, Page, Symbol, Use, UsePage
from foldex_client.sending import Request


class CodeCalls(Calls[Way]):
    """Calls about definitions and their uses."""

    @listing
    def symbols(
        self,
        tool: AnyTool,
        *,
        name: str | None = None,
        prefix: str | None = None,
        kind: str | None = None,
        metadata: MetadataFilter | None = None,
        page_size: int | None = None,
    ) -> Request[Page[Symbol]]:
        """Definitions by name: all, those of one name, or those with a prefix."""
        query = given(name=name, prefix=prefix, kind=kind, metadata=in_address(metadata), limit=page_size)
        return Request("GET", tool_path(tool, "symbols"), Page[Symbol], query)

    @listing
    def outline(
        self,
        tool: AnyTool,
        *,
        path: str | None = None,
        metadata: MetadataFilter | None = None,
        page_size: int | None = None,
    ) -> Request[Page[Symbol]]:
        """The definitions of a file, or of all files below a folder, by path and line."""
        query = given(path=path, metadata=in_address(metadata), limit=page_size)
        return Request("GET", tool_path(tool, "outline"), Page[Symbol], query)

    @call
    def impact(
        self, tool: AnyTool, name: str, *, metadata: MetadataFilter | None = None, limit: int | None = None
    ) -> Request[Impact]:
        """Places that a change of a name may affect: definitions, references, tests, and other lines with the word."""
        query = given(name=name, metadata=in_address(metadata), limit=limit)
        return Request("GET", tool_path(tool, "impact"), Impact, query)

    @listing
    def references(
        self,
        tool: AnyTool,
        *,
        name: str | None = None,
        kind: str | None = None,
        file_id: Id | None = None,
        scope: str | None = None,
        metadata: MetadataFilter | None = None,
        page_size: int | None = None,
        on_notes: Callable[[Sequence[Note]], None] | None = None,
    ) -> Request[Page[Use]]:
        """Uses of a name, or the uses within `file_id` and `scope`. `on_notes` gets the notes of each page."""
        query = given(name=name, kind=kind, file_id=file_id, scope=scope, limit=page_size)
        query |= given(metadata=in_address(metadata))
        on_page = None if on_notes is None else lambda page: on_notes(page.notes)
        return Request("GET", tool_path(tool, "references"), UsePage, query, on_page=on_page)

    @call
    def callers(
        self,
        tool: AnyTool,
        name: str,
        *,
        depth: int | None = None,
        scope: str | None = None,
        file_id: Id | None = None,
        metadata: MetadataFilter | None = None,
    ) -> Request[CallGraph]:
        """The definitions that call this name, their callers, and so on up to `depth`."""
        query = given(name=name, depth=depth, scope=scope, file_id=file_id, metadata=in_address(metadata))
        return Request("GET", tool_path(tool, "symbols", "callers"), CallGraph, query)

    @call
    def callees(
        self,
        tool: AnyTool,
        name: str,
        *,
        depth: int | None = None,
        scope: str | None = None,
        file_id: Id | None = None,
        metadata: MetadataFilter | None = None,
    ) -> Request[CallGraph]:
        """Functions that the definitions of this name call, functions that those call, and so on up to `depth`."""
        query = given(name=name, depth=depth, scope=scope, file_id=file_id, metadata=in_address(metadata))
        return Request("GET", tool_path(tool, "symbols", "callees"), CallGraph, query)
