"""The verbs over a tool's tree of summaries."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

import click

from api.cli.invocation import FOUND, NOTHING, Invocation, VerbFailed, verb
from api.cli.service.connection import Connection, connect
from api.cli.service.tool_lookup import find_tool
from api.cli.terminal import output
from api.cli.terminal.completions import complete_places

if TYPE_CHECKING:
    from uuid import UUID

    from foldex_client.models import RaptorStatus

#: Seconds between two looks at a build.
LOOK_SECONDS = 0.5
#: States in which a build goes on.
OPEN = frozenset({"pending", "indexing"})

tool_argument = click.argument("tool", default=".", shell_complete=complete_places)


@click.group()
def tree() -> None:
    """Build, show and walk the tree of summaries over a folder.

    TOOL is an id, a name or a path; default: the present folder.
    """


@verb("foldex tree build ~/notes", "foldex tree build handbook --full --no-wait")
@tool_argument
@click.option("--full", is_flag=True, help="Cluster every layer from scratch.")
@click.option("--no-wait", is_flag=True, help="Return at once; the build goes on.")
def build(invocation: Invocation, tool: str, full: bool, no_wait: bool) -> int:
    """Build the tree of TOOL, and wait for it. From then on it is kept up to date.

    TOOL is an id, a name or a path; default: the present folder.
    """
    with connect(invocation) as service:
        tool_id = find_tool(service, tool).tool_id
        state = service.foldex.trees.build(tool_id, full=full or None)
        if not no_wait:
            state = _wait(service, tool_id, tool)
        _print(invocation, state)
    if state.error is not None:
        raise VerbFailed(f"The tree is not complete: {state.error}")
    return FOUND


@verb("foldex tree status", "foldex tree status handbook --json")
@tool_argument
def status(invocation: Invocation, tool: str) -> int:
    """Show the tree that answers for TOOL, and its newest build.

    TOOL is an id, a name or a path; default: the present folder.
    """
    with connect(invocation) as service:
        state = service.foldex.trees.status(find_tool(service, tool).tool_id)
    _print(invocation, state)
    return FOUND if state.has_index else NOTHING


@verb("foldex tree show ~/notes", "foldex tree show handbook --level 1 --json")
@tool_argument
@click.option("--level", type=click.IntRange(0, 5), help="Only this level; 0: texts of the folder.")
@click.option("--parent", type=click.UUID, metavar="NODE_ID", help="Only what this summary summarises.")
def show(invocation: Invocation, tool: str, level: int | None, parent: UUID | None) -> int:
    """Print the summaries of TOOL, from the top down.

    TOOL is an id, a name or a path; default: the present folder.
    """
    with connect(invocation) as service:
        tool_id = find_tool(service, tool).tool_id
        nodes = list(service.foldex.trees.nodes(tool_id, level=level, parent=parent))
    if invocation.as_json:
        output.print_items(nodes)
    for node in () if invocation.as_json else nodes:
        output.print_tree_node(node)
    if not nodes:
        output.note("No such summary exists; `foldex tree status` shows how many each level has.")
    return FOUND if nodes else NOTHING


def _wait(service: Connection, tool_id: str, word: str) -> RaptorStatus:
    """The status once no build goes on."""
    try:
        while True:
            state = service.foldex.trees.status(tool_id)
            if state.indexing_status not in OPEN:
                return state
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        output.note(f"The build goes on; `foldex tree status {shlex.quote(word)}` shows it.")
        raise


def _print(invocation: Invocation, state: RaptorStatus) -> None:
    output.print_json(state) if invocation.as_json else output.print_tree(state)


for command in (build, status, show):
    tree.add_command(command)
