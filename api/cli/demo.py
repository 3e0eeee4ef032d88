"""`make demo`: runs the whole service on one folder and uses it through the HTTP API."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from api.agents.folders import root_of
from api.cli.service.connection import skip_the_program_of_httpx
from api.cli.service.folder_tools import allow_folder
from api.cli.terminal import output
from api.cli.terminal.flags import in_flags
from api.cli.terminal.output import clean, excluded
from api.cli.terminal.progress import ProgressLine, duration
from api.stack.embedded import RunningStack, stack
from api.stack.record import ROOT
from schemas.wording import amount
from worker.settings import Settings

if TYPE_CHECKING:
    from foldex_client import Foldex, Status, Tool
    from foldex_client.models import File

#: The project of the demo's tools.
PROJECT = "demo"
#: Queries for this repository.
REPOSITORY_QUERIES = (
    "how does a task go on after its worker was killed",
    "cuts re-synchronise after a line is inserted",
    "retry when the embedding provider answers 429",
)
#: Excluded from this repository: this file, as the queries would find themselves first, and tests, half of all text.
EXCLUDED = [f"/{Path(__file__).relative_to(ROOT)}", "/tests/"]
#: Queries for other folders.
DEFAULT_QUERIES = ("overview", "configuration settings", "how to get started")
#: Hits of each query.
TOP_K = 3
#: Files of a group that are named.
SHOWN_NAMES = 20
#: Groups of skipped or failed files that are printed.
SHOWN_GROUPS = 20
#: Seconds between two lines of progress where no terminal draws a bar.
LINE_SECONDS = 10.0


def run(settings: Settings, folder: Path | None, queries: Sequence[str]) -> int:
    """Start everything, index `folder`, answer `queries` and stop. Returns the exit status, 1 if indexing failed."""
    root = (folder or ROOT).resolve()
    # the stack's processes read their settings from the environment
    os.environ.update(AUTH="off")
    # a later start may read the folder too, as `foldex open` does
    allow_folder(settings.foldex_home.resolve(), str(root))
    skip_the_program_of_httpx()
    from foldex_client import Foldex

    with stack(Settings(), print) as running, Foldex(running.api_url, trust_env=False) as client:
        click.echo(f"Flower  {running.flower_note}    API  {running.api_url}/docs\nPage    {running.page_address()}\n")
        tool = client.tools.create(
            PROJECT, path=root, name=root.name, config={"exclude": EXCLUDED} if root == ROOT else {}, wait=False
        )
        now = _follow(client, tool)
        _report(client, tool, now)
        if now.status != "ready":
            click.secho(clean(in_flags(now.error or now.status)), fg="red")
            return 1
        if not now.indexed_files:
            click.echo("No file was indexed, so there is nothing to ask; choose a folder with texts in it.")
            return 0
        for query in queries or (REPOSITORY_QUERIES if folder is None else DEFAULT_QUERIES):
            answer = client.tools.search(tool, query, top_k=TOP_K)
            click.echo(f"\n{click.style(query, bold=True)}  {answer.took_ms:.0f} ms")
            for hit in answer.results:
                output.print_hit(tool, hit, 0, query, is_calibrated=answer.calibrated)
        _offer_page(running)
    return 0


def _offer_page(running: RunningStack) -> None:
    """Leave the stack to the page until Ctrl-C, if somebody is there to press it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo("\n`foldex open` shows the folder in the page.")
        return
    click.echo(f"\nSearch it, or add a folder of yours, in the page:\n{running.page_address()}")
    click.echo("Press Ctrl-C to stop.")
    with suppress(KeyboardInterrupt):
        while running.supervisor.alive():
            time.sleep(1)


def _follow(client: Foldex, tool: Tool) -> Status:
    """Wait until the task ends, with bars on a terminal, else with a line now and then.

    Prints when words were searchable, and when all was complete.
    """
    from foldex_client import IndexingFailed

    bar, began = ProgressLine(tool.name), time.monotonic()
    printed, has_words = began, False
    click.echo(f"indexing {clean(root_of(tool))} …")

    def draw(now: Status) -> None:
        nonlocal printed, has_words
        if now.searchable_at is not None and not has_words:
            has_words = True
            bar.clear()
            click.echo(f"words searchable after {time.monotonic() - began:.1f} s")
        bar(now)
        if not sys.stderr.isatty() and time.monotonic() - printed >= LINE_SECONDS:
            printed = time.monotonic()
            left = "" if now.eta_seconds is None else f", {duration(now.eta_seconds)} left"
            click.echo(f"{now.progress or 0:.0%}, {output.counts(now)}{left}")

    try:
        ended = client.tools.wait(tool, on_progress=draw)
    except IndexingFailed as error:
        return error.task
    else:
        bar.clear()
        click.echo(f"complete after {time.monotonic() - began:.1f} s")
        return ended
    finally:
        bar.clear()


def _report(client: Foldex, tool: Tool, now: Status) -> None:
    """Print what was indexed, and what was not and why."""
    click.echo(
        f"{amount(now.indexed_files or 0, 'file')} indexed in {amount(now.total_chunks or 0, 'chunk')} "
        f"({now.embedded_chunks} embedded, {now.reused_chunks} reused, {amount(now.tokens or 0, 'token')})"
    )
    counts = dict(now.ignored or {})
    not_obeyed = counts.pop("ignore_file_not_obeyed", 0)
    if counts:
        click.secho(f"excluded by rules: {', '.join(excluded(*each) for each in sorted(counts.items()))}", dim=True)
    if not_obeyed:
        click.echo(f"ignore files not applied: {not_obeyed}  see the log of worker-fast")
    for (type_,), group in _groups(client.tools.files(tool, status="indexed", page_size=1000), "file_type"):
        click.echo(f"{group.files} {type_} in {amount(group.chunks, 'chunk')}  {group.file_names}")
    for outcome in ("skipped", "failed"):
        groups = _groups(client.tools.files(tool, status=outcome, page_size=1000), "reason", "message", "remedy")
        for (reason, message, remedy), group in groups[:SHOWN_GROUPS]:
            click.secho(f"{group.files} {outcome}: {reason}  {group.file_names}", fg="yellow")
            # a file's own message already names the remedy after its semicolon
            click.echo(f"    {clean(in_flags(message if ';' in message else f'{message} {remedy}'))}")
        if len(groups) > SHOWN_GROUPS:
            click.echo(f"{amount(len(groups) - SHOWN_GROUPS, 'more reason')}: foldex files {tool.tool_id}")


@dataclass
class _FileGroup:
    """Files that are reported together. Only the first `SHOWN_NAMES` are named; the rest are counted."""

    files: int = 0
    chunks: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, file: File) -> None:
        self.files += 1
        self.chunks += file.chunks
        if len(self.names) < SHOWN_NAMES:
            self.names.append(clean(file.file_path))

    @property
    def file_names(self) -> str:
        more = self.files - len(self.names)
        return ", ".join(self.names) + (f" and {more} more" if more else "")


def _groups(files: Iterable[File], *fields: str) -> list[tuple[tuple[str, ...], _FileGroup]]:
    """Group files by these fields, largest group first."""
    groups: dict[tuple[str, ...], _FileGroup] = defaultdict(_FileGroup)
    for file in files:
        groups[tuple(getattr(file, name) or "" for name in fields)].add(file)
    return sorted(groups.items(), key=lambda item: (-item[1].files, item[0]))
