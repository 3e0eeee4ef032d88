"""The verb that searches folders by meaning and by words."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from api.agents.folders import BUCKET, FolderPart, root_of
from api.cli.invocation import ERROR, FOUND, NOTHING, Invocation, verb, yes
from api.cli.service.connection import Connection, connect
from api.cli.service.places import ask_for, before_start, find_places
from api.cli.service.tool_lookup import TOOLS
from api.cli.terminal import output
from api.cli.terminal.completions import complete_places
from api.cli.terminal.progress import duration
from api.cli.verbs.find import MAX_CONTEXT
from api.cli.verbs.where import metadata_filter, where_option

if TYPE_CHECKING:
    from api.cli.service.local_calls import Json
    from foldex_client import Status, Tool
    from foldex_client.calls import Until
    from foldex_client.models import Answer, Note, TreeHit

#: The code of the note that vectors are still to come.
MEANING_FOLLOWS = "meaning_follows"
#: The code of the note that probably no hit answers the query.
NOTHING_FITS = "nothing_fits_well"
#: Codes of notes that more files or words are found later.
LATER = {MEANING_FOLLOWS, "not_indexed_yet"}
#: Maximum seconds that a search which found nothing waits for them.
LATER_SECONDS = 15.0
#: Maximum files of a folder that is compared with its index before it answers, which takes a tenth of a second.
COMPARED_FILES = 2_000
#: Maximum neighbouring chunks on each side of a hit, as many as the service gives.
MAX_NEAR = 10
#: Default search mode.
DEFAULT_MODE = "hybrid"


class PlacedHit(NamedTuple):
    """A hit, the tool that found it, and whether its score is a chance."""

    tool: Tool
    hit: TreeHit
    is_calibrated: bool


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
@click.option(
    "-C",
    "--context",
    type=click.IntRange(0, MAX_CONTEXT),
    default=0,
    show_default=True,
    help="Lines around the best ones of each hit.",
)
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
    answers by words at once, and by meaning once that is indexed. A folder of at most 2,000 files is brought up to date
    first; of a larger one that is not watched, a note tells the age.
    """
    body = _body(query, top_k, mode, tree, context)
    consents = ask_for(paths or (".",), is_sure=yes)
    places: dict[tuple[str, str], FolderPart] = {}
    answers: list[PlacedAnswer] = []
    deadline = time.monotonic() + LATER_SECONDS

    def find(path: str) -> None:
        until: Until = "ready" if is_patient else "words"
        for place in find_places(service, path, consents[path], until, is_named=bool(paths)):
            places[place.tool.tool_id, place.below] = place

    def ask(place: FolderPart) -> None:
        asked = body | {"filters": _filters(place, types, glob, where)}
        answers.append(PlacedAnswer(place.tool, _answer(service, place.tool, asked, deadline)))

    with connect(invocation, start_if=before_start(consents)) as service:
        has_failed = service.try_each(consents, find)
        has_failed |= service.try_each(places.values(), ask)
        hits = _best(answers, top_k)
        if invocation.as_json:
            is_one = len(consents) == len(answers) == 1
            output.print_json(answers[0].answer if is_one else _combine(query, hits, answers))
        else:
            _print(service, query, hits, answers, context)
        if is_opened and hits:
            from api.cli.terminal.opening import open_hit

            open_hit(hits[0].tool, hits[0].hit, is_here=service.is_here)
        return ERROR if has_failed else FOUND if hits else NOTHING


def _body(query: str, top_k: int, mode: str | None, tree: str | None, context: int) -> Json:
    """The request for a search."""
    # a chunk may be of one line
    near = min(context, MAX_NEAR)
    options = {"mode": mode, "tree": tree, "before": near, "after": near}
    return {"query": query, "top_k": top_k} | {name: value for name, value in options.items() if value}


def _best(answers: Sequence[PlacedAnswer], top_k: int) -> list[PlacedHit]:
    """The best hits of all answers. Those of a single one keep their order.

    They are ordered by score, or by their rank in their own answer if only some answers are calibrated.
    """
    ranked = [
        (rank, PlacedHit(tool, hit, answer.calibrated))
        for tool, answer in answers
        for rank, hit in enumerate(answer.results)
    ]
    if len({answer.calibrated for _, answer in answers}) > 1:
        ranked.sort(key=lambda each: each[0])
    elif len(answers) > 1:
        ranked.sort(key=lambda each: -each[1].hit.score)
    return [hit for _, hit in ranked] if len(answers) == 1 else [hit for _, hit in ranked[:top_k]]


def _notes(answers: Sequence[PlacedAnswer]) -> list[Note]:
    """Notes for the caller about the answers, each sentence once. `nothing_fits_well` only if all have it."""
    fits = any(answer.results and NOTHING_FITS not in _codes(answer) for _, answer in answers)
    noted = (note for _, answer in answers for note in answer.notes or [] if not (fits and note.code == NOTHING_FITS))
    return [*{note.detail: note for note in noted}.values()]


def _codes(answer: Answer) -> set[str]:
    return {note.code for note in answer.notes or []}


def _combine(query: str, hits: Sequence[PlacedHit], answers: Sequence[PlacedAnswer]) -> dict[str, object]:
    """Combine the answers of several tools into one JSON document, which names the tool of each hit."""
    results = [{"tool_id": tool.tool_id, **output.plain(hit)} for tool, hit, _ in hits]
    notes = [output.plain(note) for note in _notes(answers)]
    return {"query": query, "total_results": len(hits), "notes": notes, "results": results}


def _print(
    service: Connection, query: str, hits: Sequence[PlacedHit], answers: Sequence[PlacedAnswer], context: int
) -> None:
    output.notes(_notes(answers))
    for tool, hit, is_calibrated in hits:
        output.print_hit(tool, hit, context, query, is_calibrated=is_calibrated)
    if sys.stdout.isatty():
        late = [tool.tool_id for tool, answer in answers if MEANING_FOLLOWS in _codes(answer)]
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


def _answer(service: Connection, tool: Tool, body: Json, deadline: float) -> Answer:
    """The current answer; if it is empty while files are being indexed, a later one."""
    answer = _current(service, tool, body)
    return answer if answer.results or not LATER & _codes(answer) else _later(service, tool, body, deadline)


def _current(service: Connection, tool: Tool, body: Json) -> Answer:
    """The answer of an index that is brought up to date first if its folder is small.

    Otherwise, unless it is watched, a note says how old the answer is.
    """
    path = f"{TOOLS}/{tool.tool_id}/status"
    now = cast("Status", service.call_locally("GET", path) or service.foldex.tools.status(tool.tool_id))
    if now.finished_at is None:
        return _search(service, tool.tool_id, body)
    place = root_of(tool)
    is_small = now.total_files is not None and now.total_files <= COMPARED_FILES and not place.startswith(BUCKET)
    answer = _search(service, tool.tool_id, body | ({"refresh": "wait"} if is_small else {}))
    if answer.coverage.stale_files is None and (now.error or not tool.config.watch):
        age = datetime.now(UTC) - datetime.fromisoformat(str(now.finished_at))
        failed = f" failed ({now.error.rstrip('.')})" if now.error else ""
        output.note(
            f"{tool.name} was not compared with its files; its last run{failed or ' ended'} "
            f"{duration(max(0, age.total_seconds()))} ago. "
            f"`foldex index {shlex.quote(place or tool.name)}` brings it up to date."
        )
    return answer


def _later(service: Connection, tool: Tool, body: Json, deadline: float) -> Answer:
    """The answer once the index is ready, or at the deadline, with a note if it still finds nothing."""
    from foldex_client.errors import IndexingFailed, WaitTimedOut

    with suppress(IndexingFailed, WaitTimedOut):
        service.foldex.tools.wait(tool.tool_id, timeout=max(0.0, deadline - time.monotonic()))
    answer = _search(service, tool.tool_id, body)
    if not answer.results:
        output.note(f"No indexed file of {tool.name} has these words yet.")
    return answer


def _search(service: Connection, tool_id: str, body: Json) -> Answer:
    """The answer of one tool: an empty one with a note if the filters select no file.

    A key that may not write gets the answer without `refresh`.
    """
    answer = service.call_locally("POST", f"{TOOLS}/{tool_id}/query", body)
    if answer is not None:
        return cast("Answer", answer)
    client = service.foldex
    from foldex_client.errors import FilterMatchesNothing, ScopeMissing
    from foldex_client.models import Answer, Coverage, Note

    try:
        return client.tools.search(tool_id, **body)
    except ScopeMissing:
        if "refresh" not in body:
            raise
        return _search(service, tool_id, {name: value for name, value in body.items() if name != "refresh"})
    except FilterMatchesNothing as error:
        now, note = client.tools.status(tool_id), Note(code=error.code, detail=error.detail)
        coverage = Coverage(indexed_files=now.indexed_files, total_files=now.total_files)
        query, mode = body["query"], body.get("mode", DEFAULT_MODE)
        return Answer(query=query, mode=mode, total_results=0, took_ms=0, coverage=coverage, notes=[note], results=[])
