"""Waits for indexing, with two bars on standard error if that is a terminal: for words, and for all with vectors."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import click

from api.cli.invocation import VerbFailed
from api.cli.service.connection import Connection
from api.cli.terminal.output import clean, note
from schemas.wording import amount, noun

if TYPE_CHECKING:
    from foldex_client import Status, Tool
    from foldex_client.calls import Until

#: Seconds between two looks at an index that is built for a changed config.
LOOK_SECONDS = 0.3
#: Runs among which the one that was waited for is looked up.
LATEST_RUNS = 10
#: Characters of a bar.
WIDTH = 10
#: Maximum chunks a second of a rate that is shown per minute.
SLOWEST = 0.5


class ProgressLine:
    """One line that is drawn again with each status."""

    def __init__(self, name: str, told: set[str] | None = None) -> None:
        self._name, self._began = clean(name), time.monotonic()
        #: Warnings that were printed.
        self._told = set[str]() if told is None else told
        self._first: int | None = None
        #: The first run that was seen.
        self.task_id: str | None = None
        self._is_drawn = sys.stderr.isatty()

    def __call__(self, now: Status) -> None:
        """Draw a status. Without a terminal only warnings are printed, each once."""
        self.task_id = self.task_id or now.task_id
        if now.warning and now.warning not in self._told:
            self._told.add(now.warning)
            self.clear()
            note(now.warning)
        if self._is_drawn:
            columns = _columns()
            click.echo(f"\r{self._line(now, columns):<{columns}}", nl=False, err=True)

    def _line(self, now: Status, columns: int) -> str:
        """All that fits: times and the rate are left out last. Without counts, the state."""
        if now.embedded_chunks is None or now.reused_chunks is None or now.progress is None:
            return f"{self._name}  {now.status}"[:columns]
        chunks = now.embedded_chunks + now.reused_chunks
        self._first = chunks if self._first is None else self._first
        rate = _rate((chunks - self._first) / max(0.2, time.monotonic() - self._began))
        more = "+" if now.listing else ""
        files = f"{now.finished_files}/{now.total_files}{more} {noun(now.total_files, 'file')}"
        size = f"{(now.done_bytes or 0) / 1e6:.1f}/{(now.total_bytes or 0) / 1e6:.1f}{more} MB"
        words_progress = now.words_progress or 0.0
        # while somebody else is waited for, nobody knows how long it takes
        words_left, left = (_left(None if now.warning else each) for each in (now.words_eta_seconds, now.eta_seconds))
        words, meaning = f"words {_bar(words_progress)}{words_left}", f"meaning {_bar(now.progress)}{left}"
        short_words, short_meaning = f"words {words_progress:.0%}", f"meaning {now.progress:.0%}{left}"
        lines = [
            "  ".join(parts)
            for parts in (
                (words, meaning, files, size, rate),
                (words, meaning, files, rate),
                (words, meaning, rate),
                (f"{short_words}{words_left}", short_meaning, rate),
                (short_words, short_meaning, rate),
            )
        ]
        line = next((line for line in lines if len(self._name) + 2 + len(line) <= columns), lines[-1])
        name = self._name[: max(0, columns - len(line) - 2)]
        return f"{name}{'  ' if name else ''}{line}"[:columns]

    def clear(self) -> None:
        """Remove the line."""
        if self._is_drawn:
            click.echo(f"\r{'':<{_columns()}}\r", nl=False, err=True)


def _bar(share: float) -> str:
    full = round(share * WIDTH)
    return f"[{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}"


def _rate(chunks_per_second: float) -> str:
    if 0 < chunks_per_second <= SLOWEST:
        return f"{amount(round(chunks_per_second * 60), 'chunk')}/min"
    return f"{amount(round(chunks_per_second), 'chunk')}/s"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", {duration(seconds)}"


def _columns() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns - 1


def duration(seconds: float) -> str:
    """Seconds in words."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _find_run(service: Connection, tool: Tool, now: Status, task_id: str | None) -> Status:
    """The run that was waited for. With `watch`, another may have ended since."""
    if task_id == now.task_id:
        return now
    runs = islice(service.foldex.tools.tasks(tool.tool_id), LATEST_RUNS)
    return next((run for run in runs if (run.task_id, run.status) == (task_id, "ready")), now)


def _wait_for_switch(service: Connection, tool: Tool, now: Status, bar: ProgressLine) -> Status:
    """The status once no index is being built for a changed config any more. Raises `VerbFailed` if that failed."""
    is_updating = False
    while (current := service.foldex.tools.get(tool.tool_id)).updating is not None:
        is_updating = True
        time.sleep(LOOK_SECONDS)
        bar(now.model_copy(update={"progress": current.updating.progress, "eta_seconds": None}))
    if current.update_error is not None:
        raise VerbFailed(f"{tool.name} keeps its old config: {current.update_error}")
    return service.foldex.tools.status(tool.tool_id) if is_updating else now


@contextmanager
def going_on(path: str) -> Iterator[None]:
    """Say after Ctrl-C that the indexing of a folder goes on."""
    try:
        yield
    except KeyboardInterrupt:
        place = shlex.quote(path)
        note(f"Indexing goes on; `foldex status {place}` shows it, `foldex cancel {place}` stops it.")
        raise


def wait(service: Connection, tool: Tool, until: Until = "ready") -> Status:
    """Wait until a tool is indexed, or found by words. Raises `VerbFailed` if it ends otherwise."""
    from foldex_client import IndexingFailed

    bar = ProgressLine(tool.name, service.told)
    try:
        now = service.foldex.tools.wait(tool.tool_id, until=until, on_progress=bar)
        return _wait_for_switch(service, tool, _find_run(service, tool, now, bar.task_id), bar)
    except IndexingFailed as error:
        if error.task.searchable_files:
            raise VerbFailed(f"{tool.name} is not up to date, but what is indexed answers: {error.detail}") from error
        raise VerbFailed(f"{tool.name} is not indexed: {error.detail}") from error
    finally:
        bar.clear()
