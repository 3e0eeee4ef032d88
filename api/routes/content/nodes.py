"""The project's own content tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from operator import attrgetter
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Path, Query, Response
from pydantic_core import PydanticSerializationError, to_json

from api.http.bodies import JsonRoute
from api.http.dependencies import Caller, CallerDep, ResourcesDep, needs_space
from api.http.described_errors import raises
from api.routes.content import node_answers
from api.routes.paging import Cursor, Limit, from_cursor, page
from schemas.content.acl import EVERYTHING, Sight
from schemas.content.node import NewNode, Node, NodeDeleted, NodePatch
from schemas.errors import (
    BodiesBusy,
    Conflict,
    ContentsElsewhere,
    Invalid,
    SourceError,
    SourceRefused,
    SourceUnavailable,
)
from schemas.ids import NewId
from schemas.tool import Listing
from schemas.wording import indefinite
from worker.resources import Resources
from worker.state.content import nodes, orphans
from worker.state.content.nodes import StoredContent
from worker.upkeep.orphans import drop

router = APIRouter(prefix="/api/projects/{project_id}/nodes", tags=["nodes"], route_class=JsonRoute)

#: A longer id could not own a tool, nor be indexed by Postgres.
ProjectId = Annotated[NewId, Path(max_length=200, description="Id of the project.", examples=["project-1"])]
NodeId = Annotated[str, Path(description="Id of the node within the project.", examples=["folder-001"])]

#: Time after which an object that no node claims is deleted.
STRAY_TIME = timedelta(days=1)
#: How the store of contents may fail.
OBJECT_ERRORS = (SourceRefused, SourceUnavailable, ContentsElsewhere)


@router.post(
    "", status_code=201, response_model=Node, dependencies=[needs_space], openapi_extra=raises(Conflict, *OBJECT_ERRORS)
)
def create_node(project_id: ProjectId, body: NewNode, caller: CallerDep, resources: ResourcesDep) -> Response:
    """Add a folder, or a file with its content."""
    caller.check(project_id)
    if body.type == "folder" and body.content is not None:
        raise Invalid("A folder cannot have content; omit it, or use another type.")
    if body.type == "json" and "content" not in body.model_fields_set:
        raise Invalid("A json node needs `content`; send null if it is empty.")
    id_ = body.id or str(uuid4())
    node = nodes.NewNode(id_, body.parent_id, body.name, body.type, body.url, body.metadata, body.acl)
    stored = _store(resources, project_id, body.type, body.content)
    with _drop_on_error(resources, stored):
        row = nodes.insert(resources.pool, project_id, node, stored, caller.sight)
    content = node_answers.nothing() if row.withheld else node_answers.sent(body.content, stored.json)
    return node_answers.answer(row, content, 201)


@router.get("", response_model_exclude={"items": {"__all__": {"content", "metadata", "acl", "withheld"}}})
def list_nodes(
    project_id: ProjectId,
    caller: CallerDep,
    resources: ResourcesDep,
    parent_id: Annotated[
        str | None,
        Query(
            max_length=200, description="Folder whose nodes to list; default: the top level.", examples=["folder-001"]
        ),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[Node]:
    """List the nodes of a folder, without their content, metadata and access lists, by name."""
    caller.check(project_id)
    after, sight = from_cursor(cursor, str, str), _listed_to(caller)
    return page(
        lambda most: nodes.page(resources.pool, project_id, parent_id, after=after, limit=most, sight=sight),
        limit,
        lambda row: row,
        attrgetter("name", "id"),
    )


@router.get("/{node_id}", response_model=Node, openapi_extra=raises(SourceError, BodiesBusy, *OBJECT_ERRORS))
def get_node(project_id: ProjectId, node_id: NodeId, caller: CallerDep, resources: ResourcesDep) -> Response:
    """Get a node with its whole content."""
    row = seen_node(resources, caller, project_id, node_id)
    return node_answers.answer_stored(resources, row, caller.sight)


@router.patch(
    "/{node_id}",
    response_model=Node,
    dependencies=[needs_space],
    openapi_extra=raises(Conflict, SourceError, *OBJECT_ERRORS),
)
def patch_node(
    project_id: ProjectId, node_id: NodeId, body: NodePatch, caller: CallerDep, resources: ResourcesDep
) -> Response:
    """Rename, move or rewrite a node, atomically."""
    caller.check(project_id)
    sent_fields = body.model_fields_set
    row = nodes.get(resources.pool, project_id, node_id)
    if "content" in sent_fields and row.type == "folder":
        raise Invalid("A folder cannot have content; omit it.")
    is_moved = bool(sent_fields & {"name", "parent_id"})
    place = nodes.NodeMove(body.name, body.parent_id, "parent_id" in sent_fields) if is_moved else None
    type_ = nodes.type_as(row, body.name)
    link = nodes.NodeLink(body.url) if "url" in sent_fields else None
    metadata = nodes.NodeMetadata(body.metadata) if "metadata" in sent_fields else None
    access = nodes.NodeAcl(body.acl) if "acl" in sent_fields else None
    stored = _store(resources, project_id, type_, body.content) if "content" in sent_fields else None
    with _drop_on_error(resources, stored):
        unused_key = nodes.change(resources.pool, project_id, node_id, place, stored, link, metadata, access)
    drop(resources, [unused_key] if unused_key else [])
    return get_node(project_id, node_id, caller, resources)


@router.delete("/{node_id}", status_code=202)
def delete_node(project_id: ProjectId, node_id: NodeId, caller: CallerDep, resources: ResourcesDep) -> NodeDeleted:
    """Delete a node with everything below it."""
    caller.check(project_id)
    drop(resources, nodes.delete(resources.pool, project_id, node_id))
    return NodeDeleted(id=node_id)


def seen_node(resources: Resources, caller: Caller, project_id: str, node_id: str) -> nodes.NodeRow:
    """A node as the caller sees it. Raises `NotFound`, also for one that must not be shown."""
    caller.check(project_id)
    row = nodes.get(resources.pool, project_id, node_id, caller.sight)
    if row.withheld and not _manages(caller):
        raise nodes.missing(project_id, node_id)
    return row


def _listed_to(caller: Caller) -> Sight:
    return EVERYTHING if _manages(caller) else caller.sight


def _manages(caller: Caller) -> bool:
    """Whether the caller sees all nodes, though not their content, because it may change them and their lists."""
    return "write" in caller.scopes


def _store(resources: Resources, project_id: str, type_: str, value: Any) -> StoredContent:
    """Store content, and return what its row holds. JSON stays inline; text is an object before any row names it."""
    if type_ == "folder":
        return StoredContent()
    if type_ == "json":
        text = _checked_json(value)
        return StoredContent(json=text, size=len(text.encode()))
    if not isinstance(value, str | None):
        raise Invalid(f"The content of {indefinite(type_)} node must be a string; only json nodes accept other values.")
    try:
        data = (value or "").encode()
    except UnicodeEncodeError as error:
        raise Invalid("The content contains an unpaired surrogate, which is not valid text; remove it.") from error
    (key,) = new_object_keys(resources, project_id, 1)
    resources.objects.put(key, data)
    return StoredContent(object_key=key, size=len(data))


def _checked_json(value: Any) -> str:
    try:
        # the standard library holds the interpreter for ten times as long
        text = to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise Invalid(
            "The content contains an unpaired surrogate, which is not valid text; upload it as a file, which keeps its "
            "bytes."
        ) from error
    if (b"NaN" in text or b"Infinity" in text) and text != to_json(value, inf_nan_mode="null"):
        raise Invalid("JSON does not allow NaN or Infinity; use null or a string.")
    return text.decode()


def new_object_keys(resources: Resources, project_id: str, count: int) -> list[str]:
    """Announce and return new object keys. The sweep deletes those that no node claims in time."""
    keys = [f"{project_id}/{uuid4()}" for _ in range(count)]
    orphans.announce(resources.pool, keys, STRAY_TIME)
    return keys


@contextmanager
def _drop_on_error(resources: Resources, stored: StoredContent | None) -> Iterator[None]:
    """Delete the stored object if the block fails, because no row names it then."""
    try:
        yield
    except BaseException:  # whatever failed, no row names the object
        if stored and stored.object_key:
            drop(resources, [stored.object_key])
        raise
