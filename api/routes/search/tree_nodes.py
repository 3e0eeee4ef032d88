"""Routes of summary trees beside those of every derived index: cancelling, and walking through the nodes."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from api.http.bodies import JsonRoute
from api.http.dependencies import CallerDep, IndexDep, ResourcesDep, ToolDep, ToolId, needs_space
from api.http.described_errors import raises
from api.http.disconnect import DisconnectDep
from api.indexers import subject_of, summary_tree
from api.indexers.as_seen import as_seen
from api.indexers.registry import TREE
from api.routes.indexers import IndexerCalls
from api.routes.paging import Cursor, Limit, from_cursor, page
from api.search.text.visibility import ids_of, visible_files
from api.search.tree.answer import find_built_tree
from api.search.tree.shown_part import shown_part
from schemas.errors import NoTree
from schemas.summary_tree import RaptorStatus, TreeNode
from schemas.tool import Listing
from worker.state.tree import trees, views

router = APIRouter(prefix="/api/tools/search", tags=["summary trees"], route_class=JsonRoute)


@router.post("/{tool_id}/raptor/cancel", status_code=202)
def cancel_tree(tool: ToolDep, caller: CallerDep, resources: ResourcesDep) -> RaptorStatus:
    """Stop the build. The last complete tree stays. Does nothing if no build is open."""
    tree = trees.of_tool(resources.pool, tool.tool_id)
    if tree is not None:
        trees.cancel(resources.pool, tree.id)
    return as_seen(summary_tree.status(resources, subject_of(tool)), caller, may_hide=tool.may_hide)


@router.get("/{tool_id}/raptor/nodes", openapi_extra=raises(NoTree))
def list_summaries(
    tool_id: ToolId,
    index: IndexDep,
    resources: ResourcesDep,
    disconnect: DisconnectDep,
    level: Annotated[int | None, Query(ge=0, le=5, description="Only this level; 0: texts of the folder.")] = None,
    parent: Annotated[UUID | None, Query(description="Only what this summary summarises.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[TreeNode]:
    """List the nodes of the tree that answers, from the top down; without `level` and `parent` all summaries.

    A summary is shown to callers who may read all that it summarises.
    """
    tree = find_built_tree(resources.pool, UUID(tool_id))
    visible = visible_files(resources.pool, index, disconnect.check)
    shown = shown_part(resources.pool, tree, ids_of(visible))
    after = from_cursor(cursor, int, UUID)
    return page(
        lambda most: views.page(resources.pool, tree, level=level, parent=parent, shown=shown, after=after, limit=most),
        limit,
        _shown_node,
        attrgetter("level", "id"),
    )


def _shown_node(node: views.ShownNode) -> TreeNode:
    return TreeNode(
        node_id=node.id,
        level=node.level,
        text=node.text,
        children_ids=node.children,
        parent_ids=node.parents,
        file_paths=node.paths,
    )


#: The same calls at other paths, where the id of a knowledge base is that of a tool.
calls = IndexerCalls(TREE)
aliases = APIRouter(prefix="/v1/knowledge-bases/{tool_id}/raptor", include_in_schema=False, route_class=JsonRoute)
for path in ("", "/status"):
    aliases.get(path, name="get_raptor", response_model=RaptorStatus)(calls.get)
for path in ("", "/build"):
    aliases.post(path, name="build_raptor", status_code=202, dependencies=[needs_space], response_model=RaptorStatus)(
        calls.build
    )
aliases.delete("", name="delete_raptor", status_code=202, response_model=RaptorStatus)(calls.delete)
