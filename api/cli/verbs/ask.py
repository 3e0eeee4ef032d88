"""The verb that searches folders by meaning and by words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from api.agents.folders import FolderPart
from api.cli.invocation import ERROR, FOUND, NOTHING, Invocation, verb, yes
from api.cli.service.connection import Connection, connect
from api.cli.service.places import ask_for, before_start, find_places
from api.cli.service.tool_lookup import TOOLS
from api.cli.terminal import output
from api.cli.terminal.completions import complete_places
from api.cli.terminal.progress import duration
from api.cli.verbs.find import context_option
from api.cli.verbs.where import metadata_filter, where_option

if TYPE_CHECKING:
    from api.cli.service.local_calls import Json
    from foldex_client import Tool
    from foldex_client.calls import Until
    from foldex_client.models import Answer, Note, TreeHit

#: The code of the note that vectors are still to come.
MEANING_FOLLOWS = "meaning_follows"
#: Default search mode.
DEFAULT_MODE = "hybrid"


class PlacedHit(NamedTuple):
    """A hit, and the tool that found it."""

    tool: Tool
    hit: TreeHit


class PlacedAnswer(NamedTuple):
    """The answer of a tool."""

    tool: Tool
    answer: Answer


@verb(
    'foldex search "where are leases renewed"',
    'foldex search "retry policy" src docs -t python,md -C 3',
    'foldex search "what are the main risks" contracts --tree collapsed',
    "foldex search leave policies --where team=hr --where 'year>=2024'",
    "foldex search q --json",
)
@click.argument("query")
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_places)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "vector", "keyword"]),
    help="By both, by meaning, or by words; default: hybrid.",
)
@click.option("-k", "--top-k", type=click.IntRange(1, 1000), default=10, show_default=True, help="Maximum hits.")
@click.option("-t", "--types", metavar="A,B", help="Only these types, such as python,md.")
@click.option("--path", "glob", metavar="GLOB", help="Only files that match, such as 'src/**/*.py'.")
@where_option
@context_option
@click.option(
    "--tree", type=click.Choice(["collapsed", "tree_traversal"]), help="Search the tree of summaries too; default: no."
)
@click.option("--wait", "is_patient", is_flag=True, help="Wait until all is indexed, with its meaning.")
@click.option("--open", "is_opened", is_flag=True, help="Open the first hit, in $VISUAL or $EDITOR if it has lines.")
@yes
def search(
    invocation: Invocation,
    query: str,
    paths: tuple[str, ...],
    mode: str | None,
    top_k: int,
    types: str | None,
    glob: str | None,
    where: tuple[str, ...],
    context: int,
    tree: str | None,
    is_patient: bool,
    is_opened: bool,
    yes: bool,
) -> int:
    """Find what answers QUERY below PATHs, by meaning and words.

    PATH is a folder, a file, or a tool's id or name; default: the present folder, or all tools if nothing there is
    indexed. A folder above indexed ones stands for these. One that was never indexed is indexed first, if you agree. It
    answers by words at once, and by meaning once that is indexed.
    """
    body: Json = {"query": query, "top_k": top_k}
    body |= {"mode": mode} if mode else {}
    body |= {"tree": tree} if tree else {}
    body |= {"before": 1, "after": 1} if context else {}
    consents = ask_for(paths or (".",), is_sure=yes)
    places: dict[tuple[str, str], FolderPart] = {}
    answers: list[PlacedAnswer] = []

    def find(path: str) -> None:
        until: Until = "ready" if is_patient else "words"
        for place in find_places(service, path, consents[path], until, is_named=bool(paths)):
            places[place.tool.tool_id, place.below] = place

    def ask(place: FolderPart) -> None:
        asked = body | {"filters": _filters(place, types, glob, where)}
        answers.append(PlacedAnswer(place.tool, _search(service, place.tool.tool_id, asked)))

    with connect(invocation, start_if=before_start(consents)) as service:
        has_failed = service.try_each(consents, find)
        has_failed |= service.try_each(places.values(), ask)
        hits = _best(answers, top_k)
        if invocation.as_json:
            is_one = len(consents) == len(answers) == 1
            output.print_json(answers[0].answer if is_one else _combine(query, hits, answers))
        else:
            _print(service, hits, answers, context)
        if is_opened and hits:
            from api.cli.terminal.opening import open_hit

            open_hit(*hits[0], is_here=service.is_here)
        return ERROR if has_failed else FOUND if hits else NOTHING


def _best(answers: Sequence[PlacedAnswer], top_k: int) -> list[PlacedHit]:
    """The best hits of all answers, by score. Those of a single one keep their order."""
    hits = [PlacedHit(tool, hit) for tool, answer in answers for hit in answer.results]
    return hits if len(answers) == 1 else sorted(hits, key=lambda each: -each.hit.score)[:top_k]


def _notes(answers: Sequence[PlacedAnswer]) -> list[Note]:
    """What the caller should know about answers, each sentence once."""
    return [*{note.detail: note for _, answer in answers for note in answer.notes or []}.values()]


def _combine(query: str, hits: Sequence[PlacedHit], answers: Sequence[PlacedAnswer]) -> dict[str, object]:
    """Combine the answers of several tools into one JSON document, which names the tool of each hit."""
    results = [{"tool_id": tool.tool_id, **output.plain(hit)} for tool, hit in hits]
    notes = [output.plain(note) for note in _notes(answers)]
    return {"query": query, "total_results": len(hits), "notes": notes, "results": results}


def _print(service: Connection, hits: Sequence[PlacedHit], answers: Sequence[PlacedAnswer], context: int) -> None:
    output.notes(_notes(answers))
    for tool, hit in hits:
        output.hit(tool, hit, context)
    if sys.stdout.isatty():
        codes = {tool.tool_id: {note.code for note in answer.notes or []} for tool, answer in answers}
        late = [tool_id for tool_id, noted in codes.items() if MEANING_FOLLOWS in noted]
        if late:
            _offer_meaning(service, late[0])


def _offer_meaning(service: Connection, tool_id: str) -> None:
    """Say when there will be better answers, and how to wait for them."""
    now = service.foldex.tools.status(tool_id)
    if not now.ended:
        time = "soon" if now.eta_seconds is None else f"in about {duration(now.eta_seconds)}"
        output.note(f"Better answers follow {time}: search again then, or with --wait.")


def _filters(found: FolderPart, types: str | None, glob: str | None, where: Sequence[str]) -> Json:
    pattern = found.pattern(glob)
    given = {"path": pattern, "types": types and types.split(","), "metadata": metadata_filter(where, found.tool)}
    return {name: value for name, value in given.items() if value}


def _search(service: Connection, tool_id: str, body: Json) -> Answer:
    """The answer of one tool: an empty one with a note if the filters select no file."""
    answer = service.call_locally("POST", f"{TOOLS}/{tool_id}/query", body)
    if answer is not None:
        return cast("Answer", answer)
    client = service.foldex
    from foldex_client.errors import FilterMatchesNothing
    from foldex_client.models import Answer, Coverage, Note

    try:
        return client.tools.search(tool_id, **body)
    except FilterMatchesNothing as error:
        now, note = client.tools.status(tool_id), Note(code=error.code, detail=error.detail)
        coverage = Coverage(indexed_files=now.indexed_files, total_files=now.total_files)
        query, mode = body["query"], body.get("mode", DEFAULT_MODE)
        return Answer(query=query, mode=mode, total_results=0, took_ms=0, coverage=coverage, notes=[note], results=[])
