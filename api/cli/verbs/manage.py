"""The verbs that show and change tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click

from api.agents.folders import FolderPart, root_of
from api.cli.invocation import FOUND, NOTHING, Invocation, VerbFailed, confirm, verb, yes
from api.cli.service.connection import Connection, connect
from api.cli.service.folder_tools import forget_unused
from api.cli.service.tool_lookup import covering, find_tool, states_of, tools_of
from api.cli.terminal import output
from api.cli.terminal.completions import complete_places
from api.cli.terminal.progress import going_on, wait
from schemas.reason import FileStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foldex_client import Status, Tool

#: What a list of tools that is empty means.
NO_TOOL = "There is no tool yet; `foldex index FOLDER` makes one."

tool_argument = click.argument("tool", shell_complete=complete_places)
wait_option = click.option("--wait", "is_waiting", is_flag=True, help="Wait until it has ended.")


class _Options(TypedDict):
    """Options of a run and of its estimate."""

    full: bool | None
    renew_text: bool | None


@verb("foldex tools", "foldex tools --json")
def tools(invocation: Invocation) -> int:
    """List the tools: id, state, name and folder."""
    with connect(invocation) as service:
        found = tools_of(service)
    if invocation.as_json:
        output.print_items(found)
    for tool in () if invocation.as_json else found:
        output.print_tool(tool)
    if not found:
        output.note(NO_TOOL)
    return FOUND if found else NOTHING


@verb("foldex models", "foldex models --check")
@click.option("--check", is_flag=True, help="Ask each whether it answers now.")
def models(invocation: Invocation, check: bool) -> int:
    """List the models that are configured or allowed."""
    with connect(invocation) as service:
        found = service.foldex.models(check=check or None)
    if invocation.as_json:
        output.print_json(found)
    for model in () if invocation.as_json else found.items:
        output.print_model(model)
    return FOUND if found.items else NOTHING


@verb("foldex status", "foldex status ~/notes --watch", "foldex status handbook --json")
@click.argument("tool", required=False, metavar="[TOOL]", shell_complete=complete_places)
@click.option("--watch", is_flag=True, help="Wait until indexing has ended, and show its progress.")
def status(invocation: Invocation, tool: str | None, watch: bool) -> int:
    """Show how far indexing is: of TOOL, or of every tool.

    TOOL is an id, a name or a path.
    """
    with connect(invocation) as service:
        meant = tools_of(service) if tool is None else [_covering(service, tool)]
        if tool is None and not watch:
            found = list(states_of(service, meant))
        else:
            found = [(e, wait(service, e) if watch else service.foldex.tools.status(e.tool_id)) for e in meant]
    if invocation.as_json:
        output.print_json(found[0][1]) if tool is not None else output.print_items(state for _, state in found)
    for each, state in () if invocation.as_json else found:
        output.print_status(each, state, service.told)
    if not found:
        output.note(NO_TOOL)
    return FOUND if found else NOTHING


def _covering(service: Connection, word: str) -> Tool:
    found = covering(service, word)
    return found.tool if found is not None else find_tool(service, word)


@verb("foldex files . --failed", "foldex files handbook --status skipped", "foldex files . -q readme --json")
@click.argument("tool", default=".", shell_complete=complete_places)
@click.option("--failed", "status", flag_value="failed", help="Only files that failed.")
@click.option("--skipped", "status", flag_value="skipped", help="Only files that were skipped.")
@click.option(
    "--status", type=click.Choice([status.value for status in FileStatus]), help="Only files with this status."
)
@click.option("-q", "text", metavar="TEXT", help="Only files with TEXT in their path.")
def files(invocation: Invocation, tool: str, status: str | None, text: str | None) -> int:
    """List the files of TOOL with their outcome, reason and remedy.

    TOOL is an id, a name or a path; default: the present folder.
    """
    with connect(invocation) as service:
        place = covering(service, tool) or FolderPart(find_tool(service, tool))
        every = service.foldex.tools.files(place.tool.tool_id, status=status, q=text, page_size=1000)
        below = f"{place.below}/" if place.below else ""
        found = [each for each in every if each.file_path.startswith(below) or each.file_path == place.below]
    if invocation.as_json:
        output.print_items(found)
    for each in () if invocation.as_json else found:
        output.print_file(place.tool, each)
    if not found:
        output.note(f"{place.tool.name} has no file{_which(place.below, status, text)}.")
    return FOUND if found else NOTHING


def _which(below: str, status: str | None, text: str | None) -> str:
    """The filter of a list of files, in words."""
    place = f" below {below}" if below else ""
    state = {None: "", "failed": " that failed", "skipped": " that was skipped"}.get(status, f" that is {status}")
    return f"{place}{state}{f' with {text!r} in its path' if text else ''}"


@verb("foldex retry handbook", "foldex retry . --wait")
@tool_argument
@wait_option
def retry(invocation: Invocation, tool: str, is_waiting: bool) -> int:
    """Try failed and unfinished files of TOOL again.

    TOOL is an id, a name or a path.
    """
    with connect(invocation) as service:
        found = find_tool(service, tool)
        with going_on(tool):
            return _show(service, found, service.foldex.tools.retry(found.tool_id), is_waiting=is_waiting)


@verb(
    "foldex reindex . --wait",
    "foldex reindex handbook guides/start.md",
    "foldex reindex --all --full",
    "foldex reindex . --full --renew-text --dry-run",
)
@click.argument("tool", required=False, metavar="[TOOL]", shell_complete=complete_places)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--all", "is_all", is_flag=True, help="Every tool, or every one of --project.")
@click.option("--full", is_flag=True, help="Read every file again; only new text is embedded.")
@click.option("--renew-text", is_flag=True, help="With --full: embed code in the form of new indexes.")
@click.option("--dry-run", is_flag=True, help="Show what it would cost, without starting it.")
@click.option("--allow-removals", is_flag=True, help="Remove vanished files even if they are most of the folder.")
@wait_option
def reindex(
    invocation: Invocation,
    tool: str | None,
    paths: tuple[str, ...],
    is_all: bool,
    full: bool,
    renew_text: bool,
    dry_run: bool,
    allow_removals: bool,
    is_waiting: bool,
) -> int:
    """Index what changed in TOOL, in PATHs of it, or in all tools.

    TOOL is an id, a name or a path. Returns at once, unless --wait is given.
    """
    if is_all == (tool is not None):
        raise VerbFailed("Name one tool, or give --all.")
    if renew_text and not full:
        raise VerbFailed("--renew-text reads every file again: give --full too.")
    if dry_run and (is_all or paths):
        raise VerbFailed("A dry run estimates one whole tool: name it, without paths.")
    if dry_run and (is_waiting or allow_removals):
        raise VerbFailed("A dry run starts nothing: leave out --wait and --allow-removals.")
    options: _Options = {"full": full or None, "renew_text": renew_text or None}
    with connect(invocation) as service:
        if tool is None:
            return _reindex_all(service, options, allow_removals or None, is_waiting=is_waiting)
        found = find_tool(service, tool)
        if dry_run:
            cost = service.foldex.tools.estimate_reindex(found.tool_id, **options)
            output.print_json(cost) if invocation.as_json else output.print_estimate(cost)
            return FOUND
        with going_on(tool):
            now = service.foldex.tools.reindex(
                found.tool_id, **options, allow_removals=allow_removals or None, paths=paths or None
            )
            return _show(service, found, now, is_waiting=is_waiting)


def _reindex_all(service: Connection, options: _Options, allow_removals: bool | None, *, is_waiting: bool) -> int:
    by_id = {tool.tool_id: tool for tool in tools_of(service)}
    projects = dict.fromkeys(tool.project_id for tool in by_id.values())
    started = [state for it in projects for state in _reindex(service, it, options, allow_removals)]
    found = [(by_id[state.tool_id], state) for state in started if state.tool_id in by_id]
    if is_waiting:
        for tool, state in found:
            # after the wait, no status says that a renewal was refused
            if state.warning:
                output.note(f"{tool.name}: {state.warning}")
        found = [(tool, wait(service, tool)) for tool, _ in found]
    if service.invocation.as_json:
        output.print_items(state for _, state in found)
    for tool, state in () if service.invocation.as_json else found:
        output.print_status(tool, state, service.told)
    if not found:
        output.note(NO_TOOL)
    return FOUND if found else NOTHING


def _reindex(service: Connection, project: str, options: _Options, allow_removals: bool | None) -> Iterator[Status]:
    """Start runs for all tools of a project, some with each call."""
    cursor = None
    while True:
        answer = service.foldex.projects.reindex(project, **options, allow_removals=allow_removals, cursor=cursor)
        yield from answer.items
        cursor = answer.next_cursor
        if cursor is None:
            return


@verb("foldex cancel handbook")
@tool_argument
def cancel(invocation: Invocation, tool: str) -> int:
    """Stop indexing TOOL. What is searchable stays searchable.

    TOOL is an id, a name or a path.
    """
    with connect(invocation) as service:
        found = find_tool(service, tool)
        before = service.foldex.tools.status(found.tool_id)
        now = service.foldex.tools.cancel(found.tool_id)
        if before.ended and found.updating is None and not invocation.as_json:
            click.echo(output.clean(f"Nothing runs: the last run of {found.name} ended as {before.status}."))
            return FOUND
        return _show(service, found, now, is_waiting=False)


def _show(service: Connection, tool: Tool, now: Status, *, is_waiting: bool) -> int:
    if is_waiting:
        now = wait(service, tool)
    if service.invocation.as_json:
        output.print_json(now)
    else:
        output.print_status(tool, now, service.told)
    return FOUND


@verb("foldex delete handbook", "foldex delete ~/notes --yes")
@tool_argument
@yes
def delete(invocation: Invocation, tool: str, yes: bool) -> int:
    """Delete TOOL and its index. The folder itself stays as it is.

    TOOL is an id, a name or a path.
    """
    with connect(invocation) as service:
        found = find_tool(service, tool)
        where = root_of(found) or found.name
        confirm(
            f"Delete the tool {found.name} over {where}?",
            f"Deleting {found.name} needs a yes; give --yes.",
            is_sure=yes,
            default=False,
        )
        service.foldex.tools.delete(found.tool_id)
        forget_unused(service, where)
    if invocation.as_json:
        output.print_json({"tool_id": found.tool_id, "status": "deleting"})
    else:
        click.echo(f"Deleted {found.name}.")
    return FOUND
