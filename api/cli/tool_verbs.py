"""The verbs that show and change tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from api.cli import show
from api.cli.asking import FOUND, NOTHING, Asked, agreed, verb, yes
from api.cli.progress import wait
from api.cli.reach import Reached, reached
from api.cli.which_tool import Place, covering, named, root_of, tools_of

if TYPE_CHECKING:
    from foldex_client import Status, Tool

tool_argument = click.argument("tool")
wait_option = click.option("--wait", "is_waiting", is_flag=True, help="Wait until it has ended.")


@verb("foldex tools", "foldex tools --json")
def tools(asked: Asked) -> int:
    """List the tools: id, state, name and folder."""
    with reached(asked) as service:
        found = tools_of(service)
    if asked.as_json:
        show.print_items(found)
    for tool in () if asked.as_json else found:
        show.tool_line(tool)
    return FOUND if found else NOTHING


@verb("foldex status", "foldex status ~/notes --watch", "foldex status handbook --json")
@click.argument("tool", required=False, metavar="[TOOL]")
@click.option("--watch", is_flag=True, help="Wait until indexing has ended, and show its progress.")
def status(asked: Asked, tool: str | None, watch: bool) -> int:
    """Show how far indexing is: of TOOL, or of every tool.

    TOOL is an id, a name or a path.
    """
    with reached(asked) as service:
        found = tools_of(service) if tool is None else [_covering(service, tool)]
        states = [wait(service, each) if watch else service.foldex.tools.status(each.tool_id) for each in found]
    if asked.as_json:
        show.print_json(states[0]) if tool is not None else show.print_items(states)
    for each, state in () if asked.as_json else zip(found, states, strict=True):
        show.status(each, state)
    return FOUND if found else NOTHING


def _covering(service: Reached, word: str) -> Tool:
    found = covering(service, word)
    return found.tool if found is not None else named(service, word)


@verb("foldex files . --failed", "foldex files handbook --status skipped", "foldex files . -q readme --json")
@click.argument("tool", default=".")
@click.option("--failed", "status", flag_value="failed", help="Only files that failed.")
@click.option("--skipped", "status", flag_value="skipped", help="Only files that were skipped.")
@click.option("--status", help="Only files with this status.")
@click.option("-q", "text", metavar="TEXT", help="Only files with TEXT in their path.")
def files(asked: Asked, tool: str, status: str | None, text: str | None) -> int:
    """List the files of TOOL with their outcome, reason and remedy.

    TOOL is an id, a name or a path.
    """
    with reached(asked) as service:
        place = covering(service, tool) or Place(named(service, tool))
        every = service.foldex.tools.files(place.tool.tool_id, status=status, q=text, page_size=1000)
        below = f"{place.below}/" if place.below else ""
        found = [each for each in every if each.file_path.startswith(below) or each.file_path == place.below]
    if asked.as_json:
        show.print_items(found)
    for each in () if asked.as_json else found:
        show.file(place.tool, each)
    return FOUND if found else NOTHING


@verb("foldex retry handbook", "foldex retry . --wait")
@tool_argument
@wait_option
def retry(asked: Asked, tool: str, is_waiting: bool) -> int:
    """Try failed and unfinished files of TOOL again."""
    with reached(asked) as service:
        found = named(service, tool)
        return _shown(service, found, service.foldex.tools.retry(found.tool_id), is_waiting=is_waiting)


@verb("foldex reindex . --wait", "foldex reindex handbook --full")
@tool_argument
@click.option("--full", is_flag=True, help="Read every file again; only new text is embedded.")
@click.option("--allow-removals", is_flag=True, help="Remove vanished files even if they are most of the folder.")
@wait_option
def reindex(asked: Asked, tool: str, full: bool, allow_removals: bool, is_waiting: bool) -> int:
    """Index what changed in the folder of TOOL."""
    with reached(asked) as service:
        found = named(service, tool)
        now = service.foldex.tools.reindex(found.tool_id, full=full or None, allow_removals=allow_removals or None)
        return _shown(service, found, now, is_waiting=is_waiting)


@verb("foldex cancel handbook")
@tool_argument
def cancel(asked: Asked, tool: str) -> int:
    """Stop indexing TOOL. What is searchable stays searchable."""
    with reached(asked) as service:
        found = named(service, tool)
        return _shown(service, found, service.foldex.tools.cancel(found.tool_id), is_waiting=False)


def _shown(service: Reached, tool: Tool, now: Status, *, is_waiting: bool) -> int:
    if is_waiting:
        now = wait(service, tool)
    if service.asked.as_json:
        show.print_json(now)
    else:
        show.status(tool, now)
    return FOUND


@verb("foldex delete handbook", "foldex delete ~/notes --yes")
@tool_argument
@yes
def delete(asked: Asked, tool: str, yes: bool) -> int:
    """Delete TOOL and its index. The folder itself stays as it is."""
    with reached(asked) as service:
        found = named(service, tool)
        where = root_of(found) or found.name
        agreed(
            f"Delete the tool {found.name} over {where}?",
            f"Deleting {found.name} needs a yes; give --yes.",
            is_sure=yes,
        )
        service.foldex.tools.delete(found.tool_id)
        if service.home is not None and not [each for each in tools_of(service) if root_of(each) == where]:
            from worker.machine.named_folders import forget_folder, named_folders_file

            forget_folder(named_folders_file(service.home), where)
    if asked.as_json:
        show.print_json({"tool_id": found.tool_id, "status": "deleting"})
    else:
        click.echo(f"Deleted {found.name}.")
    return FOUND
