"""Prints answers as lines that begin with `path:line`, or as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from api.agents.folders import BUCKET, root_of
from api.cli.terminal.flags import in_flags
from schemas.wording import amount

if TYPE_CHECKING:
    from foldex_client import Status, Tool
    from foldex_client.estimate import Estimate
    from foldex_client.models import (
        CallGraph,
        File,
        Impact,
        Model,
        ModelInfo,
        Note,
        RaptorStatus,
        Symbol,
        TreeHit,
        TreeNode,
        Use,
    )

#: Lines of a hit's text that are shown.
SHOWN_LINES = 6
#: Characters of a line that are shown.
SHOWN_CHARACTERS = 200
#: What could steer a terminal or turn the direction of a line, if a file or its name holds it.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_WORD = re.compile(r"\w+")
#: Colours of states.
COLOURS = {"ready": "green", "error": "red", "cancelled": "yellow", "indexed": "green", "failed": "red"}


def print_json(value: Model | dict[str, object]) -> None:
    """Print one JSON document, as the service answered it."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=not is_unicode))


def print_items(items: Iterable[Model]) -> None:
    """Print a list as one JSON document."""
    print_json({"items": [plain(item) for item in items]})


def print_record(record: Any) -> None:
    """Print a row or a dataclass as one JSON document, with ids and times as the service writes them."""
    from pydantic_core import to_jsonable_python

    print_json(to_jsonable_python(record))


def print_records(records: Iterable[Any]) -> None:
    """Print a list of them as one JSON document."""
    print_record({"items": list(records)})


def plain(value: Model | dict[str, object]) -> dict[str, object]:
    """The fields of an answer, as the service gave them."""
    return value if isinstance(value, dict) else value.model_dump(mode="json", exclude_unset=True)


def clean(text: str) -> str:
    """One line of text, without characters that could steer a terminal or begin another line."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def note(text: str) -> None:
    """Tell something besides the results."""
    for line in text.splitlines():
        click.secho(clean(in_flags(line)), err=True, dim=True)


def notes(found: Sequence[Note]) -> None:
    """Tell what the caller should know about an answer."""
    for each in found:
        note(each.detail)


def path_in(tool: Tool, file_path: str) -> str:
    """The path of a tool's file as a user types it: from the present directory, if the file lies below."""
    root = root_of(tool)
    if not root or root.startswith(BUCKET):
        return f"{root}/{file_path}" if root else file_path
    path = os.path.join(root, file_path)  # noqa: PTH118 - a string as it is
    try:
        here = os.getcwd()  # noqa: PTH109 - a string as it is
    except FileNotFoundError:
        return path
    return os.path.relpath(path, here) if path.startswith(here.rstrip("/") + "/") else path


def place(path: str, line: int | None, mark: str = ":") -> str:
    """`path:line`, or with another mark than `:` a page, coloured as by ripgrep."""
    shown = click.style(clean(path), fg="magenta")
    return shown if line is None else f"{shown}{mark}{click.style(str(line), fg='green')}"


def print_hit(tool: Tool, found: TreeHit, context: int, query: str, *, is_calibrated: bool) -> None:
    """Print a hit: where it is, its score if that is a chance, its title, and its best lines for the query."""
    score = click.style(f"{found.score:.2f}", fg="cyan") if is_calibrated else ""
    named = [clean(part) for part in (found.symbol or found.title, found.json_pointer) if part]
    about = " ".join(filter(None, (score, *named)))
    path = path_in(tool, found.file_path)
    # lines of a document's text are known to nobody who reads it
    where = place(path, found.start_line) if found.page is None else place(path, found.page, " p. ")
    click.echo(f"{where}: {about}".rstrip())
    for line, is_best in shown_lines(found, query, context):
        _text(line, dim=not is_best)
    if found.raptor_summary_preview:
        _text(f"found through the summary: {' '.join(found.raptor_summary_preview.split())}", dim=True)


def shown_lines(found: TreeHit, query: str, context: int) -> list[tuple[str, bool]]:
    """The lines of a hit that are printed, each with whether it is one of the best, and not context.

    Context may be of the neighbouring chunks. "…" stands for lines of the hit that are left out before them.
    """
    lines = found.chunk_text.rstrip("\n").splitlines() or [""]
    best = best_lines(lines, query)
    numbered = dict(enumerate(lines, found.start_line))
    for piece in (*(found.before or ()), *(found.after or ())):
        for number, line in enumerate(piece.chunk_text.splitlines(), piece.start_line):
            numbered.setdefault(number, line)
    first, last = found.start_line + best.start, found.start_line + best.stop - 1
    wanted = range(max(min(numbered), first - context), min(max(numbered), last + context) + 1)
    cut = [("…", True)] * (wanted.start > found.start_line)
    # lines between two chunks are blank
    return cut + [(numbered.get(number, ""), first <= number <= last) for number in wanted]


def best_lines(lines: Sequence[str], query: str) -> range:
    """Where the `SHOWN_LINES` are that hold most words of a query, rare ones first, below the line before them."""
    words = set(_WORD.findall(query.casefold()))
    found = [words & set(_WORD.findall(line.casefold())) for line in lines]
    counts = Counter(word for each in found for word in each)

    def weight(held: Iterable[str]) -> float:
        return round(sum(1 / counts[word] for word in held), 6)

    weights = [weight(each) for each in found]

    def worth(first: int) -> tuple[float, bool, int]:
        window = slice(first, first + SHOWN_LINES)
        is_led = weights[first] < weights[first + 1] == max(weights[window])
        return weight(set().union(*found[window])), is_led, -first

    first = max(range(len(lines) - SHOWN_LINES + 1), key=worth) if len(lines) > SHOWN_LINES else 0
    return range(first, min(len(lines), first + SHOWN_LINES))


def _text(line: str, *, dim: bool = False) -> None:
    shown = clean(line)
    cut = shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[:SHOWN_CHARACTERS]}…"
    click.echo(f"    {click.style(cut, dim=True) if dim else cut}".rstrip())


def print_definition(tool: Tool, found: Symbol) -> None:
    """Print a definition with its kind, unless its signature says it, and its signature."""
    is_said = found.kind in found.signature.split(found.name)[0].split()
    kind = "" if is_said else f"{click.style(found.kind, fg='cyan')} "
    click.echo(f"{place(path_in(tool, found.file_path), found.start_line)}: {kind}{clean(found.signature)}")


def print_outlined(tool: Tool, found: Symbol) -> None:
    """Print a definition of an outline, indented by its depth."""
    depth = len(found.scope.split("/")) if found.scope else 0
    said = f"{'  ' * depth}{clean(found.signature or found.name)}"
    click.echo(f"{place(path_in(tool, found.file_path), found.start_line)}: {said}")


def not_defined(name: str, path: str) -> str:
    """The sentence for a name without a definition below a path."""
    return f"No definition is called {name} {below(path)}."


def below(path: str) -> str:
    """The place of a search, in words."""
    return "here" if path == "." else f"below {path}"


def print_calls(tool: Tool, found: CallGraph, *, is_callers: bool) -> None:
    """Print who calls a definition, or what it calls, each with how sure it is."""
    for call in found.items:
        name = _dotted("/".join(filter(None, (call.scope, call.name)))) or "top level"
        line = call.line if is_callers else call.start_line
        where = place(path_in(tool, call.file_path), line) if call.file_path else (call.stopped or "outside")
        sure = click.style(call.confidence, fg="cyan")
        several = f", one of {call.definitions}" if call.ambiguous else ""
        via = f", depth {call.depth} via {call.via}" if call.depth > 1 else ""
        click.echo(f"{where}: {sure} {clean(f'{name}{several}{via}')}")
    if found.truncated:
        note("There are more calls; select one definition, such as Class.name, or lower --depth.")
    notes(found.notes)


def _dotted(scope: str) -> str:
    """A scope as users write it: `Class.name`."""
    return scope.replace("/", ".")


def print_impact(tool: Tool, found: Impact) -> None:
    """Print what a change of a name may affect, each part under its title."""
    said: list[tuple[Symbol | Use, str]] = [(each, f"definition {each.signature}") for each in found.definitions]
    for title, uses in (("reference", found.references), ("test", found.tests)):
        said += [(use, f"{title}: {use.kind} in {_dotted(use.scope or '') or 'top level'}") for use in uses]
    for each, text in said:
        click.echo(f"{place(path_in(tool, each.file_path), each.start_line)}: {clean(text)}")
    for hit in found.text:
        click.echo(f"{place(path_in(tool, hit.file_path), hit.line)}: text: {clean(hit.preview.strip())}")
    if found.truncated:
        note(f"There are more: {', '.join(found.truncated)}; raise --limit.")
    notes(found.notes)


def print_file(tool: Tool, found: File) -> None:
    """Print a file's outcome, and why it is not indexed, or not in full."""
    state = click.style(found.status, fg=COLOURS.get(found.status, "yellow"))
    if found.reason is None:
        said = f": {clean(in_flags(found.message))}" if found.message else ""
        click.echo(f"{place(path_in(tool, found.file_path), None)}: {state}, {amount(found.chunks, 'chunk')}{said}")
        return
    message, remedy = found.message or "", found.remedy or ""
    # a file's own message already names the remedy after its semicolon
    why = message if ";" in message else " ".join(filter(None, (message, remedy)))
    click.echo(f"{place(path_in(tool, found.file_path), None)}: {state} ({found.reason}): {clean(in_flags(why))}")


def print_tool(tool: Tool) -> None:
    """Print a tool: id, state, name and folder."""
    state = click.style(f"{tool.task:<9}", fg=COLOURS.get(tool.task, "yellow"))
    where = root_of(tool) or f"node {tool.node_id}"
    click.echo(f"{tool.tool_id}  {state}  {clean(tool.name)}  {clean(where)}")


def print_estimate(found: Estimate) -> None:
    """Print what indexing would read, skip and cost."""
    unchanged = f", {found.unchanged_files:,} of them indexed already" if found.unchanged_files else ""
    click.echo(f"{amount(found.total_files, 'file')}, {found.total_bytes / 1e6:.1f} MB{unchanged}")
    if found.tokens.high:
        _cost(found)
    else:
        click.echo("Nothing is to be embedded, so it costs nothing.")
    for rule, count in found.ignored.items():
        click.echo(f"    left out: {clean(excluded(rule, count))}")
    for reason, count in found.skipped.items():
        click.echo(f"    {count} left out: {clean(reason)}")
    for text in found.notes:
        note(text)


def _cost(found: Estimate) -> None:
    tokens, cost = found.tokens, found.cost
    requests = amount(round(found.requests.expected), "request")
    click.echo(f"{amount(round(tokens.expected), 'token')} ({tokens.low:,.0f} to {tokens.high:,.0f}) in {requests}")
    price = "unknown"
    if cost is not None:
        price = f"${cost.expected:.4f} (${cost.low:.4f} to ${cost.high:.4f})" if cost.high else "free"
    click.echo(f"Cost with {clean(found.model)}: {price}")
    for granularity, cut in found.by_granularity.items():
        chunks, megabytes = amount(round(cut.chunks.expected), "chunk"), cut.vector_bytes.expected / 1e6
        click.echo(f"    with granularity {granularity}: {chunks}, {megabytes:.1f} MB of vectors")


def print_tree(state: RaptorStatus) -> None:
    """Print a tree of summaries, and what its newest build does."""
    levels = ", ".join(f"level {each.level}: {amount(each.count, 'node')}" for each in state.nodes_by_level or ())
    is_shown = state.indexing_status == "indexing" and state.progress is not None
    progress = f" {state.progress:.0%}" if is_shown else ""
    stale = "" if state.stale is None else f", {state.stale} changed since"
    click.echo(f"{state.indexing_status}{progress}{f', {levels}' if levels else ''}{stale}")
    for reason, count in (state.skipped or {}).items():
        click.echo(f"    {count} left out: {clean(reason)}")
    for text in filter(None, (state.warning, state.error)):
        note(text)


def print_tree_node(node: TreeNode) -> None:
    """Print a node with the files that it summarises, and its text."""
    click.echo(f"{node.node_id}  level {node.level}  {clean(', '.join(node.file_paths))}")
    for line in node.text.splitlines():
        click.echo(f"    {clean(line)}")


def print_model(found: ModelInfo) -> None:
    """Print a model with what is known about it."""
    parts = [found.model, f"{found.kind}{' (default)' if found.default else ''}"]
    if found.dimensions is not None:
        parts.append(f"{found.dimensions} dimensions")
    if found.max_input_tokens is not None:
        parts.append(f"{amount(found.max_input_tokens, 'token')} a text")
    if found.input_price is not None:
        parts.append(f"${found.input_price:g} per million tokens")
    if found.check is not None:
        parts.append("answers" if found.check.ok else f"does not answer: {found.check.detail or found.check.code}")
    click.echo(clean("  ".join(parts)))


def print_status(tool: Tool, now: Status, told: Container[str] = ()) -> None:
    """Print a tool's state with its counts, and its error and warning unless they were told before."""
    state = click.style(now.status, fg=COLOURS.get(now.status, "yellow"))
    share = "" if now.ended or now.progress is None else f" {now.progress:.0%}"
    said = ", ".join(filter(None, (f"{state}{share}", counts(now))))
    click.echo(f"{place(root_of(tool) or tool.name, None)}: {said}  {tool.tool_id}")
    for text in (now.error, now.warning):
        if text and text not in told:
            click.echo(f"    {clean(in_flags(text))}")


def excluded(rule: str, count: int) -> str:
    """The paths that a rule excludes, in words; `rule` is a key of the status's `ignored`."""
    name = rule.removesuffix("_directories")
    things = amount(count, "file") if name == rule else amount(count, "directory", "directories")
    return f"{things} ({name})"


def counts(now: Status) -> str:
    """The counts of a status in words, "" if it has none. Embedded are those chunks that the newest run paid for."""
    if now.total_chunks is None or now.indexed_files is None:
        return ""
    chunks = f"{amount(now.total_chunks, 'chunk')} ({now.embedded_chunks:,} newly embedded)"
    searchable = max(now.searchable_files or 0, now.indexed_files)
    files = amount(searchable, "file")
    if searchable > now.indexed_files:
        files = f"{files} found by words, {now.indexed_files} by meaning"
    parts = [files, chunks]
    parts += [
        f"{count} {what}" for count, what in ((now.skipped_files, "skipped"), (now.failed_files, "failed")) if count
    ]
    return ", ".join(parts)
