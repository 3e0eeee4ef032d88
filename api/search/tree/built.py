"""The tree that answers for a tool."""

from __future__ import annotations

from uuid import UUID

from schemas.errors import NoTree
from worker.state.pool import Pool
from worker.state.tree import trees
from worker.state.tree.trees import Tree


def built_tree(pool: Pool, tool_id: UUID) -> Tree:
    """The last complete tree of a tool. Raises `NoTree`."""
    tree = trees.of_tool(pool, tool_id)
    if tree is None or tree.built_at is None:
        raise NoTree(
            f"This tool has no complete summary tree yet; build one with `foldex tree build {tool_id}`, or with POST "
            f"/api/tools/search/{tool_id}/raptor/build, and wait until its indexing_status is indexed."
        )
    return tree
