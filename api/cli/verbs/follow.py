"""The verbs that follow names through code: who calls a definition, what it calls, and what its change affects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from api.agents.folders import FolderPart
from api.cli.invocation import FOUND, NOTHING, Invocation, verb, yes
from api.cli.service.connection import Connection, connect
from api.cli.service.places import IndexingConsent, find_places
from api.cli.terminal import output
from api.cli.verbs.find import searched_path
from api.cli.verbs.where import metadata_filter, where_option

if TYPE_CHECKING:
    from foldex_client.models import CallGraph, Impact

depth_option = click.option(
    "--depth", type=click.IntRange(1, 5), default=1, show_default=True, help="Calls to follow, one after another."
)


@verb("foldex callers make_token", "foldex callers Client.send src --depth 3 --where team=red")
@click.argument("name")
@searched_path
@where_option
@depth_option
@yes
def callers(invocation: Invocation, name: str, path: str, where: tuple[str, ...], depth: int, yes: bool) -> int:
    """List the definitions below PATH that call NAME.

    With --depth, list those that call them, too. Each says how sure it is: resolved, likely or by_name.
    PATH is as for symbols. With --where, only files with this metadata count.
    """
    return _calls(invocation, "callers", name, path, where, depth, is_sure=yes)


@verb("foldex callees main", "foldex callees Client.send --depth 2 --json")
@click.argument("name")
@searched_path
@where_option
@depth_option
@yes
def callees(invocation: Invocation, name: str, path: str, where: tuple[str, ...], depth: int, yes: bool) -> int:
    """List what the definitions of NAME below PATH call.

    With --depth, list what that calls, too. Each says how sure it is: resolved, likely or by_name.
    PATH is as for symbols. With --where, only files with this metadata count.
    """
    return _calls(invocation, "callees", name, path, where, depth, is_sure=yes)


def _calls(
    invocation: Invocation, way: str, name: str, path: str, where: Sequence[str], depth: int, *, is_sure: bool
) -> int:
    consent = IndexingConsent(path, is_sure=is_sure)
    with connect(invocation, start_if=consent.before_start) as service:
        graphs = [
            (place, _graph(service, place, way, name, where, depth)) for place in find_places(service, path, consent)
        ]
    if invocation.as_json:
        _print_json([graph for _, graph in graphs])
    else:
        for place, graph in graphs:
            output.print_calls(place.tool, graph, is_callers=way == "callers")
    if any(graph.items for _, graph in graphs):
        return FOUND
    is_defined = any(graph.definitions for _, graph in graphs)
    nothing = (
        f"Nothing calls {name} {output.below(path)}."
        if way == "callers"
        else f"{name} calls nothing {output.below(path)}."
    )
    output.note(nothing if is_defined else output.not_defined(name, path))
    return NOTHING


def _graph(service: Connection, place: FolderPart, way: str, name: str, where: Sequence[str], depth: int) -> CallGraph:
    tools = service.foldex.tools
    ask = tools.callers if way == "callers" else tools.callees
    found = ask(place.tool.tool_id, name, depth=depth, metadata=_filter(where, place))
    items = [each for each in found.items if each.file_path is None or place.holds(each.file_path)]
    return found.model_copy(update={"items": items})


@verb("foldex impact make_token", "foldex impact Client.send src --where team=red --json")
@click.argument("name")
@searched_path
@where_option
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Maximum of each kind.")
@yes
def impact(invocation: Invocation, name: str, path: str, where: tuple[str, ...], limit: int, yes: bool) -> int:
    """Show what a change of NAME below PATH may affect.

    It shows definitions, references, tests and other lines. PATH is as for symbols. With --where, only files with this
    metadata count.
    """
    consent = IndexingConsent(path, is_sure=yes)
    with connect(invocation, start_if=consent.before_start) as service:
        found = [(place, _impact(service, place, name, where, limit)) for place in find_places(service, path, consent)]
    if invocation.as_json:
        _print_json([each for _, each in found])
    else:
        for place, each in found:
            output.print_impact(place.tool, each)
    if any(each.definitions or each.references or each.tests or each.text for _, each in found):
        return FOUND
    output.note(output.not_defined(name, path))
    return NOTHING


def _impact(service: Connection, place: FolderPart, name: str, where: Sequence[str], limit: int) -> Impact:
    found = service.foldex.tools.impact(place.tool.tool_id, name, metadata=_filter(where, place), limit=limit)
    parts = ("definitions", "references", "tests", "text")
    below = {part: [each for each in getattr(found, part) if place.holds(each.file_path)] for part in parts}
    return found.model_copy(update=below)


def _filter(where: Sequence[str], place: FolderPart) -> dict[str, dict[str, Any]] | None:
    return metadata_filter(where, place.tool) if where else None


def _print_json(answers: Sequence[CallGraph | Impact]) -> None:
    output.print_json(answers[0]) if len(answers) == 1 else output.print_items(answers)
