"""The calls over a tool's tree of summaries."""

from __future__ import annotations

from foldex_client.addresses import AnyTool, Id
from foldex_client.bodies import given
from foldex_client.both import Calls, Way, call, listing
from foldex_client.models import Page, RaptorEstimate, RaptorStatus, Tool, TreeNode
from foldex_client.sending import Request, path_of


class Trees(Calls[Way]):
    """Trees of summaries: build them, watch them, and walk them."""

    @call
    def status(self, tool: AnyTool) -> Request[RaptorStatus]:
        """The tree that answers, and the progress of its newest build."""
        return Request("GET", _path(tool, "status"), RaptorStatus)

    @call
    def estimate(self, tool: AnyTool) -> Request[RaptorEstimate]:
        """The cost of building the whole tree."""
        return Request("GET", _path(tool, "estimate"), RaptorEstimate)

    @call
    def build(self, tool: AnyTool, *, full: bool | None = None) -> Request[RaptorStatus]:
        """Build the tree, and keep it up to date from then on. `full` clusters every layer from scratch."""
        return Request("POST", _path(tool, "build"), RaptorStatus, body=given(full=full))

    @call
    def cancel(self, tool: AnyTool) -> Request[RaptorStatus]:
        """Stop the build. The last complete tree stays."""
        return Request("POST", _path(tool, "cancel"), RaptorStatus)

    @call
    def delete(self, tool: AnyTool) -> Request[RaptorStatus]:
        """Delete the tree, unless another tool shares it."""
        return Request("DELETE", _path(tool), RaptorStatus)

    @listing
    def nodes(
        self,
        tool: AnyTool,
        *,
        level: int | None = None,
        parent: Id | None = None,
        page_size: int | None = None,
    ) -> Request[Page[TreeNode]]:
        """The nodes of the tree, from the top down: of a level, below a parent, or all summaries."""
        query = given(level=level, parent=parent and str(parent), limit=page_size)
        return Request("GET", _path(tool, "nodes"), Page[TreeNode], query)


def _path(tool: AnyTool, *rest: str) -> str:
    return path_of("api", "tools", "search", tool.tool_id if isinstance(tool, Tool) else str(tool), "raptor", *rest)
