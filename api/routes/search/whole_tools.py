"""Finds or creates the tool over a whole folder, for calls that index a folder on the side."""

from __future__ import annotations

from api.routes.tools import wanted_index
from api.search.across.readable import is_within
from schemas.content.source import AnySource
from schemas.errors import Invalid
from schemas.ids import addressable
from schemas.tool import ToolConfig
from worker import app as queue
from worker.resources import Resources
from worker.sources.registry import addresses
from worker.state.index import tools
from worker.state.index.tools import ToolOver


def whole_tool(resources: Resources, project_id: str, config: ToolConfig, source: AnySource) -> ToolOver:
    """The oldest tool over all of a folder whose config fits, else a new one, created as `create_tool` does.

    Raises what `create_tool` raises, `DiskFull`, and `Invalid` if the new tool would show what rules of others hide.
    """
    found = tools.over_whole(resources.pool, project_id, source, config)
    if found is not None:
        return found
    try:
        addressable(project_id)
    except ValueError as error:
        raise Invalid(f"Project {project_id!r} cannot be made: {error}.") from None
    resources.space.check()
    # this may ask a provider, so it happens before the transaction
    new_index, name = wanted_index(project_id, source, config, resources)
    _check_rules(resources, project_id, new_index.source)
    tool = tools.create_over_whole(
        resources.pool, new_index, name=name, config=config, most=resources.settings.max_tools
    )
    if tool.task_id is not None:
        queue.post_plan(tool.task_id, tool.tool_id)
    return tool


def _check_rules(resources: Resources, project_id: str, source: AnySource) -> None:
    """Raise `Invalid` if a tool that has a part of the folder has rules with lists: the new tool would have none."""
    ruled = [tool for tool in tools.searchable(resources.pool, project_id) if tool.index.metadata.lists]
    place, *roots = addresses(resources.access(project_id), [source, *(tool.index.source for tool in ruled)])
    for root, tool in zip(roots, ruled, strict=True):
        if place is not None and root is not None and (is_within(place, root) or is_within(root, place)):
            raise Invalid(
                f"The tool {tool.name!r} ({tool.tool_id}) has rules with access lists for files there, and a tool made "
                "on the side would have none; create a tool with rules of its own, or search that one."
            )
