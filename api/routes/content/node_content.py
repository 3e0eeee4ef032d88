"""Downloads the original of a node."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import IO

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from api.http.bodies import JsonRoute
from api.http.dependencies import Caller, CallerDep, ResourcesDep
from api.http.described_errors import OpenApi, raises
from api.routes.content import downloads, node_answers
from api.routes.content.node_answers import missing_content
from api.routes.content.nodes import OBJECT_ERRORS, NodeId, ProjectId, seen_node
from schemas.errors import FileError, NotFound, RangeNotSatisfiable, ScopeMissing, SourceError
from worker.formats import by_name
from worker.objects.object_store import ObjectReader, ObjectStore
from worker.resources import Resources
from worker.sandbox.texts import json_text
from worker.state.content.nodes import NodeRow

router = APIRouter(prefix="/api/projects/{project_id}/nodes", tags=["nodes"], route_class=JsonRoute)

#: Characters of inline JSON that is shown with indentation. Larger ones would take seconds and twenty times their size.
MAX_RENDERED = 1 << 20

#: Further extensions of kinds of binary content.
_KINDS = {"jpeg": "jpg"}

_BYTES = {"type": "string", "format": "binary", "description": "The bytes.", "examples": ["# Overview"]}
_CONTENT: dict[int | str, OpenApi] = {
    200: {
        "description": "The content",
        "content": {"*/*": {"schema": _BYTES}},
    },
    206: {"description": "The part that `Range` asks for", "content": {"*/*": {"schema": _BYTES}}},
    304: {"description": "The content has the `ETag` of `If-None-Match`"},
}


@dataclass(frozen=True)
class _Aside:
    """Reads a content that its row held."""

    file: IO[bytes]
    size: int

    def read(self, size: int) -> bytes:
        """See `ObjectReader`."""
        return self.file.read(size)

    def close(self) -> None:
        """See `ObjectReader`."""
        self.file.close()


@dataclass(frozen=True)
class _InRow:
    """A content that its row holds."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def reader(self, part: range | None) -> ObjectReader:
        data = self.data if part is None else self.data[part.start : part.stop]
        return _Aside(BytesIO(data) if len(data) < node_answers.PIECE else node_answers.store_aside(data), len(data))


@dataclass(frozen=True)
class _InStore:
    """A content of the object store."""

    objects: ObjectStore
    key: str
    size: int

    def reader(self, part: range | None) -> ObjectReader:
        """Raises `FileError` if the object is missing, and `SourceError`."""
        return self.objects.reader(self.key, part)


class _Download(StreamingResponse):
    """A content on its way to the caller."""

    def __init__(self, reader: ObjectReader, row: NodeRow, status: int, headers: dict[str, str]) -> None:
        super().__init__(node_answers.read(reader, row.id), status, headers)
        self._reader = reader

    def close(self) -> None:
        """End it unsent."""
        self._reader.close()


@router.get(
    "/{node_id}/content",
    response_class=StreamingResponse,
    responses=_CONTENT,
    openapi_extra=raises(SourceError, RangeNotSatisfiable, *OBJECT_ERRORS),
)
def get_content(
    project_id: ProjectId, node_id: NodeId, request: Request, caller: CallerDep, resources: ResourcesDep
) -> Response:
    """Download the content of a file as it was stored; of a JSON node, the text that is indexed.

    The `ETag` changes with each new version. With `If-None-Match`, a content that the caller knows is not sent
    again. A `Range` of bytes answers 206 and that part; several ranges answer the whole. `If-Range` asks for a part of
    one version only.
    """
    row = _file(resources, caller, project_id, node_id)
    if downloads.is_known(_etag(row), request.headers.get("if-none-match")):
        return Response(status_code=304, headers=downloads.validators(_etag(row)))
    try:
        return _send(resources, caller, row, request)
    except FileError:
        # a new version may have replaced the object just now
        row = _file(resources, caller, project_id, node_id)
        try:
            return _send(resources, caller, row, request)
        except FileError as error:
            raise missing_content(row) from error


@router.head("/{node_id}/content", include_in_schema=False)
def head_content(
    project_id: ProjectId, node_id: NodeId, request: Request, caller: CallerDep, resources: ResourcesDep
) -> Response:
    """As `get_content`, without the content."""
    row = _file(resources, caller, project_id, node_id)
    if downloads.is_known(_etag(row), request.headers.get("if-none-match")):
        return Response(status_code=304, headers=downloads.validators(_etag(row)))
    with node_answers.room_for(row):
        row = _checked(node_answers.with_json(resources, row, caller.sight))
        return Response(headers=_headers(row, _content(resources, row).size))


def _file(resources: Resources, caller: Caller, project_id: str, node_id: str) -> NodeRow:
    row = seen_node(resources, caller, project_id, node_id)
    if row.type == "folder":
        raise NotFound(f"The node {node_id!r} is a folder, which has no content; list its nodes instead.")
    return _checked(row)


def _checked(row: NodeRow) -> NodeRow:
    """The node. Raises `ScopeMissing` if its content is withheld from a caller that sees the node."""
    if row.withheld:
        raise ScopeMissing(
            f"The access list of the node {row.id!r} does not admit you; send principals that it admits, or a key with "
            "the scope `all_documents`.",
            scope="all_documents",
        )
    return row


def _etag(row: NodeRow) -> str:
    # versions restart at 1 when a node is deleted and created again under the same id
    return f'"{row.version}-{row.created_at.timestamp():.6f}"'


def _headers(row: NodeRow, size: int, part: range | None = None) -> dict[str, str]:
    return downloads.headers(row.name, _content_type(row), _etag(row), size, part)


def _content_type(row: NodeRow) -> str:
    name = by_name.with_stated_type(row.name, row.type)
    (format_, language), extension = by_name.of(name), by_name.split(name)[1]
    if format_.binary:
        by_kind = {signature.kind: signature.mime for signature in format_.signatures}
        mime = by_kind.get(_KINDS.get(extension, extension)) or format_.mime
        return downloads.ANY_TYPE if mime.startswith("text/") else mime
    # a name without a known ending counts as text, but its content may be anything
    is_guess = format_.type == "text" and row.type != "text" and extension != "txt"
    return downloads.ANY_TYPE if is_guess and language is None else format_.mime


def _content(resources: Resources, row: NodeRow) -> _InStore | _InRow:
    if row.object_key is not None:
        return _InStore(resources.objects, row.object_key, row.size)
    if row.type != "json":
        return _InRow(b"")
    text = row.json_text or "null"
    if len(text) > MAX_RENDERED:
        return _InRow(text.encode())
    try:
        return _InRow(json_text(resources.helpers(row.project_id), text, resources.settings.max_file_bytes))
    except FileError:
        # indentation may multiply the size; such a document is not indexed either
        return _InRow(text.encode())


def _send(resources: Resources, caller: Caller, row: NodeRow, request: Request) -> Response:
    """The content, or the part that the request asks for. Raises `FileError` if its object is missing."""
    with node_answers.room_for(row):
        row = _checked(node_answers.with_json(resources, row, caller.sight))
        content = _content(resources, row)
        asked, if_range = request.headers.get("range"), request.headers.get("if-range")
        part = downloads.part(asked, if_range, _etag(row), content.size)
        reader = content.reader(part)
    headers = _headers(row, reader.size if part is None else content.size, part)
    return _Download(reader, row, 200 if part is None else 206, headers)
