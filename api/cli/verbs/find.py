"""The verbs that index a folder and search it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, cast

import click

from api.agents.folders import BUCKET, FolderPart
from api.cli.invocation import ERROR, FOUND, NOTHING, Invocation, VerbFailed, verb, yes
from api.cli.service.connection import Check, Connection, connect
from api.cli.service.folder_tools import config_of, estimate_tool, start_indexing
from api.cli.service.places import IndexingConsent, ask_for, before_start, find_places
from api.cli.service.tool_lookup import TOOLS, check_folder
from api.cli.terminal import output
from api.cli.terminal.completions import complete_places
from api.cli.terminal.matched_lines import MatchPrinter, shape_of
from api.cli.terminal.progress import going_on, wait
from api.cli.verbs.where import metadata_filter, where_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from api.cli.service.local_calls import Json
    from foldex_client import Tool
    from foldex_client.models import GrepAnswer, Symbol

#: The most lines of context around a hit: what grep gives, and about those of one chunk on each side.
MAX_CONTEXT = 50
#: The most hits that a grep gives, and as many as are printed by default.
MAX_HITS = 10_000
DEFAULT_HITS = 1000

#: The kinds of definitions.
SYMBOL_KINDS = (
    "class", "interface", "struct", "enum", "trait", "impl", "module", "type", "function", "method", "property",
    "macro", "constant", "variable",
)  # fmt: skip

searched_path = click.argument("path", default=".", shell_complete=complete_places)
config_option = click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="K=V",
    help="A field of the tool's config, such as watch=true; repeatable.",
)
context_option = click.option(
    "-C", "--context", type=click.IntRange(0, MAX_CONTEXT), default=0, show_default=True, help="Lines around each hit."
)


@verb(
    "foldex index ~/notes", "foldex index . --watch --config exclude='*.csv,drafts/'", "foldex index s3://bucket/docs"
)
@click.argument("path", shell_complete=complete_places)
@click.option("--name", help="Name of the tool; default: the folder's.")
@config_option
@click.option("--watch", is_flag=True, help="Keep the index up to date whenever the folder changes.")
@click.option("--no-wait", is_flag=True, help="Return at once; indexing goes on.")
@click.option("--dry-run", is_flag=True, help="Index nothing, and tell what it would cost: the same as estimate.")
@yes
def index(
    invocation: Invocation,
    path: str,
    name: str | None,
    settings: tuple[str, ...],
    watch: bool,
    no_wait: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Index PATH, or bring its index up to date, and wait for it.

    PATH is a folder, or s3://bucket/prefix. If no Foldex runs on this machine, it is started and stays. A place of
    very many files, a drive or your home is indexed for the first time only if you agree.
    """
    if dry_run:
        return _estimate(invocation, path, settings)
    config = config_of(settings) | ({"watch": True} if watch else {})
    with connect(invocation, start_if=_check(path)) as service, going_on(path):
        tool = start_indexing(service, path, name, config, is_sure=yes)
        now = service.foldex.tools.status(tool.tool_id) if no_wait else wait(service, tool)
        output.print_json(now) if invocation.as_json else output.print_status(tool, now, service.told)
    return FOUND


@verb("foldex estimate ~/notes", "foldex estimate . --config embedding_model=openai/text-embedding-3-small")
@click.argument("path", shell_complete=complete_places)
@config_option
def estimate(invocation: Invocation, path: str, settings: tuple[str, ...]) -> int:
    """Tell what indexing PATH would read, skip and cost. Nothing is indexed.

    PATH is a folder, or s3://bucket/prefix.
    """
    return _estimate(invocation, path, settings)


def _estimate(invocation: Invocation, path: str, settings: tuple[str, ...]) -> int:
    config = config_of(settings)
    with connect(invocation, start_if=_check(path)) as service:
        found = estimate_tool(service, path, config)
    output.print_json(found) if invocation.as_json else output.print_estimate(found)
    return FOUND


def _refuse_invert(_: click.Context, __: click.Parameter, is_given: bool) -> None:
    if is_given:
        raise VerbFailed("-v is not supported; pipe the output into `grep -v`, or leave files out with -g '!GLOB'.")


def _has_upper_case(pattern: str) -> bool:
    # an escape such as \\W is no letter
    return any(letter.isupper() for letter in re.sub(r"\\.", "", pattern))


@verb(
    "foldex grep TODO",
    "foldex grep -i 'lease.*renew' src docs -C 2",
    "foldex grep -F 'a[0]' -g '*.py' -g '!tests/' -l",
    "foldex grep -o '[A-Z]+-[0-9]+' -t md --json",
)
@click.argument("pattern", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_places)
@click.option("-e", "--regexp", "given", metavar="PATTERN", help="The pattern, such as one that begins with -.")
@click.option("-F", "--fixed-strings", is_flag=True, help="PATTERN is plain text, no regular expression.")
@click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are the same.")
@click.option("-S", "--smart-case", is_flag=True, help="As -i, if PATTERN has no upper-case letter.")
@click.option("-w", "--word", "--word-regexp", "word", is_flag=True, help="Match whole words only.")
@click.option(
    "-l",
    "--files",
    "--files-with-matches",
    "listed",
    flag_value="files",
    help="Print only the files with a match.",
)
@click.option("-c", "--count", "listed", flag_value="counts", help="Print only how many lines of each file match.")
@click.option("-U", "--multiline", is_flag=True, help="Let a match span lines.")
@click.option("-o", "--only-matching", is_flag=True, help="Print only what matches; with -c, count it.")
@click.option(
    "-m", "--max-count", metavar="N", type=click.IntRange(1, MAX_HITS), help="Maximum hits of a file; default: all."
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MAX_HITS),
    help=f"Maximum hits of each indexed folder; default: {DEFAULT_HITS}, with -l or -c {MAX_HITS}.",
)
@click.option("-t", "--types", "--type", "types", multiple=True, metavar="A,B", help="Only these types, such as py,md.")
@click.option(
    "-n",
    "--line-number",
    "-H",
    "--with-filename",
    "-r",
    "--recursive",
    is_flag=True,
    expose_value=False,
    help="Change nothing: it is always so.",
)
@click.option(
    "-v", "--invert-match", is_flag=True, hidden=True, expose_value=False, is_eager=True, callback=_refuse_invert
)
@click.option(
    "-g",
    "--glob",
    "--path",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Files that match, or not with !; repeatable.",
)
@click.option(
    "-A",
    "--after",
    "--after-context",
    "after",
    metavar="N",
    type=click.IntRange(0, MAX_CONTEXT),
    help="Lines after each hit; default: as -C.",
)
@click.option(
    "-B",
    "--before",
    "--before-context",
    "before",
    metavar="N",
    type=click.IntRange(0, MAX_CONTEXT),
    help="Lines before each hit; default: as -C.",
)
@where_option
@context_option
@yes
def grep(
    invocation: Invocation,
    pattern: str | None,
    paths: tuple[str, ...],
    given: str | None,
    fixed_strings: bool,
    ignore_case: bool,
    smart_case: bool,
    word: bool,
    listed: str | None,
    multiline: bool,
    only_matching: bool,
    max_count: int | None,
    limit: int | None,
    types: tuple[str, ...],
    globs: tuple[str, ...],
    after: int | None,
    before: int | None,
    where: tuple[str, ...],
    context: int,
    yes: bool,
) -> int:
    """Find the lines below each PATH that match a pattern.

    PATTERN is a regular expression. PATH is a folder, a file, or a tool's id or name; default: the present folder. A
    folder above indexed ones stands for these. It finds what is in the index. The exit status is that of ripgrep: 0 if
    a line matches, 1 if none does, 2 after an error, whatever was found.
    """
    if given is not None:
        paths, pattern = (*([] if pattern is None else [pattern]), *paths), given
    if not pattern:
        raise VerbFailed("The pattern is empty; give one of at least one character, such as TODO.")
    shape = shape_of(listed, only_matching=only_matching)
    ignore_case |= smart_case and not _has_upper_case(pattern)
    body: Json = {"pattern": pattern, "regex": not fixed_strings, "case_sensitive": not ignore_case, "word": word}
    body |= {"multiline": True} if multiline else {}
    body["head_limit"] = limit or (DEFAULT_HITS if shape in {"lines", "parts"} else MAX_HITS)
    around = {"before": context if before is None else before, "after": context if after is None else after}
    optional: Json = {
        "max_per_file": max_count or (1 if shape == "files" else None),
        "glob": list(globs),
        "types": [each for given in types for each in given.split(",")],
        **(around if shape == "lines" else {}),
        # nobody sees a colour in a pipe
        "spans": shape in {"parts", "part_counts"} or (shape == "lines" and sys.stdout.isatty()),
    }
    body |= {name: value for name, value in optional.items() if value}
    printer = MatchPrinter(shape, has_context=shape == "lines" and any(around.values()))
    return _grep_each(invocation, body, paths or (".",), where, printer, is_sure=yes)


def _grep_each(
    invocation: Invocation,
    body: Json,
    paths: Sequence[str],
    where: Sequence[str],
    printer: MatchPrinter,
    *,
    is_sure: bool,
) -> int:
    """Search each path, and print what is found. An error of one of several paths leaves the others."""
    consents = ask_for(paths, is_sure=is_sure)
    places: dict[tuple[str, str], FolderPart] = {}
    answers: list[GrepAnswer] = []

    def find(path: str) -> None:
        for place in find_places(service, path, consents[path]):
            places[place.tool.tool_id, place.below] = place

    def search(found: FolderPart) -> None:
        by_metadata = {"metadata": metadata_filter(where, found.tool)} if where else {}
        answer = _grep(service, found, body | by_metadata)
        answers.append(answer)
        if not invocation.as_json:
            output.notes(answer.notes or [])
            printer.print(found.tool, answer.hits)
            if answer.truncated and len(answer.hits) == body["head_limit"]:
                output.note("There may be more hits; narrow the search, or raise --limit.")

    with connect(invocation, start_if=before_start(consents)) as service:
        has_failed = service.try_each(consents, find)
        has_failed |= service.try_each(places.values(), search)
    if invocation.as_json:
        is_one = len(consents) == len(answers) == 1
        output.print_json(answers[0]) if is_one else output.print_items(answers)
    return ERROR if has_failed else FOUND if any(answer.hits for answer in answers) else NOTHING


def _grep(service: Connection, found: FolderPart, body: Json) -> GrepAnswer:
    """The lines that match at a place. Raises `VerbFailed` if no file is there."""
    body = body | ({"path": found.below} if found.below else {})
    answer = service.call_locally("POST", f"{TOOLS}/{found.tool.tool_id}/grep", body)
    if answer is not None:
        return cast("GrepAnswer", answer)
    client = service.foldex
    from foldex_client.errors import FilterMatchesNothing

    try:
        return client.tools.grep(found.tool.tool_id, **body)
    except FilterMatchesNothing as error:
        raise VerbFailed(error.detail) from error


@verb(
    "foldex symbols make_token", "foldex symbols --prefix test_ src --kind function", "foldex symbols Client . --json"
)
@click.argument("name", required=False)
@searched_path
@where_option
@click.option("--prefix", help="Definitions whose names begin so, instead of NAME.")
@click.option(
    "--kind",
    type=click.Choice(SYMBOL_KINDS),
    metavar="KIND",
    help="Only this kind, such as function or class.",
)
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Maximum definitions.")
@yes
def symbols(
    invocation: Invocation,
    name: str | None,
    path: str,
    where: tuple[str, ...],
    prefix: str | None,
    kind: str | None,
    limit: int,
    yes: bool,
) -> int:
    """List the definitions called NAME below PATH, or all of them.

    PATH is a folder, a file, or a tool's id or name; default: the present folder. A folder above indexed ones stands
    for these. With --prefix, the first argument is PATH.
    """
    if name is not None and prefix is not None:
        path, name = name, None
    consent = IndexingConsent(path, is_sure=yes)
    with connect(invocation, start_if=consent.before_start) as service:
        every = (
            (place.tool, symbol)
            for place in find_places(service, path, consent)
            for symbol in service.foldex.tools.symbols(
                place.tool.tool_id,
                name=name,
                prefix=prefix,
                kind=kind,
                metadata=metadata_filter(where, place.tool) if where else None,
                page_size=1000,
            )
            if place.holds(symbol.file_path)
        )
        has_some = _print_definitions(invocation, every, limit, output.print_definition, remedy="narrow the search")
        if name is not None and not has_some and not invocation.as_json:
            output.note(output.not_defined(name, path))
        return FOUND if has_some else NOTHING


@verb("foldex outline api/main.py", "foldex outline src --where team=red --json")
@searched_path
@where_option
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Maximum definitions.")
@yes
def outline(invocation: Invocation, path: str, where: tuple[str, ...], limit: int, yes: bool) -> int:
    """List the definitions of a file or a folder, by line.

    PATH is as for symbols.
    """
    consent = IndexingConsent(path, is_sure=yes)
    with connect(invocation, start_if=consent.before_start) as service:
        every = (
            (place.tool, symbol)
            for place in find_places(service, path, consent)
            for symbol in service.foldex.tools.outline(
                place.tool.tool_id,
                path=place.below or None,
                metadata=metadata_filter(where, place.tool) if where else None,
                page_size=1000,
            )
        )
        has_some = _print_definitions(invocation, every, limit, output.print_outlined, remedy="name a folder below")
        if not has_some:
            output.note(f"No definition is {output.below(path)}: it has no code, or code that is cut at lines.")
        return FOUND if has_some else NOTHING


def _print_definitions(
    invocation: Invocation,
    every: Iterator[tuple[Tool, Symbol]],
    limit: int,
    show: Callable[[Tool, Symbol], None],
    *,
    remedy: str,
) -> bool:
    """Print at most `limit` definitions. Returns whether there is one."""
    found = list(islice(every, limit))
    if next(every, None) is not None:
        output.note(f"There are more definitions; {remedy}, or raise --limit.")
    if invocation.as_json:
        output.print_items([symbol for _, symbol in found])
    for tool, symbol in () if invocation.as_json else found:
        show(tool, symbol)
    return bool(found)


def _check(path: str) -> Check:
    return lambda _: None if path.startswith(BUCKET) else check_folder(path)
