"""Finds or creates the tool over a whole folder, for calls that index a folder on the side."""

from __future__ import annotations

from api.routes.tools import wanted_index
from schemas.content.source import AnySource
from schemas.errors import Invalid
from schemas.ids import addressable
from schemas.tool import ToolConfig
from worker import app as queue
from worker.resources import Resources
from worker.state.index import tools
from worker.state.index.tools import ToolOver


def whole_tool(resources: Resources, project_id: str, config: ToolConfig, source: AnySource) -> ToolOver:
    """The oldest tool over all of a folder whose config fits, else a new one, created as `create_tool` does.

    Raises what `create_tool` raises, and `DiskFull`.
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
    tool = tools.create_over_whole(
        resources.pool, new_index, name=name, config=config, most=resources.settings.max_tools
    )
    if tool.task_id is not None:
        queue.post_plan(tool.task_id, tool.tool_id)
    return tool
