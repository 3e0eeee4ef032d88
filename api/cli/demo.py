"""`make demo`: runs the whole service on one folder and uses it through the HTTP API."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from api.cli import demo_tree
from api.cli.terminal.output import amount, excluded
from api.stack.embedded import stack
from api.stack.record import ROOT
from worker.settings import Settings

#: The project of the demo's tools.
PROJECT = "demo"
#: Queries for this repository.
REPOSITORY_QUERIES = (
    "how does a task go on after its worker was killed",
    "cuts re-synchronise after a line is inserted",
    "retry when the embedding provider answers 429",
)
#: Excluded from this repository: this file, as the queries would find themselves first, and tests, half of all text.
EXCLUDED = (f"/{Path(__file__).relative_to(ROOT)}", "/tests/")
#: Queries for other folders.
DEFAULT_QUERIES = ("overview", "configuration settings", "how to get started")
#: Path of the calls for search tools.
TOOLS = "/api/tools/search"
#: Lines of each hit that are printed.
SHOWN_LINES = 3
#: Files of a group that are named.
SHOWN_NAMES = 20
#: Groups of skipped or failed files that are printed.
SHOWN_GROUPS = 20


def run(settings: Settings, folder: Path | None, queries: Sequence[str]) -> int:
    """Start everything, index `folder`, answer `queries` and stop. Returns the exit status, 1 if indexing failed."""
    console = Console(highlight=False)
    root = (folder or ROOT).resolve()
    # the stack's processes read their settings from the environment
    os.environ.update(LOCAL_SOURCE_ROOTS=os.pathsep.join(map(str, [*settings.local_source_roots, root])), AUTH="off")
    with ExitStack() as started:
        running = started.enter_context(stack(Settings(), print))
        client = started.enter_context(httpx.Client(base_url=running.api_url, timeout=120, trust_env=False))
        console.print(f"Flower  {running.flower_note}    API  {running.api_url}/docs\n")
        tool_id = _create_tool(client, root)
        status = _follow(console, client, tool_id, root)
        _report(console, client, tool_id, status)
        if status["status"] != "ready":
            console.print(f"[red]{escape(status['error'] or status['status'])}[/red]")
            return 1
        if not status["indexed_files"]:
            console.print("No file was indexed, so there is nothing to ask; choose a folder with texts in it.")
            return 0
        asked = queries or (REPOSITORY_QUERIES if folder is None else DEFAULT_QUERIES)
        for query in asked:
            _print_answer(console, client, tool_id, query)
        console.print()
        if demo_tree.follow(console, client, tool_id):
            demo_tree.print_summaries(console, client, tool_id, asked[0])
    return 0


def _create_tool(client: httpx.Client, root: Path) -> str:
    body: dict[str, Any] = {"project_id": PROJECT, "source": {"kind": "local", "path": str(root)}, "name": root.name}
    body["config"] = {"raptor": demo_tree.RAPTOR, **({"exclude": EXCLUDED} if root == ROOT else {})}
    return str(_json(client.post(TOOLS, json=body))["tool_id"])


def _follow(console: Console, client: httpx.Client, tool_id: str, root: Path) -> dict[str, Any]:
    """Poll the status until the task ends, and draw its progress."""
    if not console.is_terminal:
        # the bar would appear at its end only
        console.print(f"indexing {escape(str(root))} …")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        line = bar.add_task(escape(root.name), total=1.0, text="")
        for status, rate in _polls(client, tool_id):
            _draw(bar, line, status, rate)
    return status


def _polls(client: httpx.Client, tool_id: str) -> Iterator[tuple[dict[str, Any], float]]:
    started = time.monotonic()
    while True:
        status = _json(client.get(f"{TOOLS}/{tool_id}/status"))
        yield status, status["embedded_chunks"] / (time.monotonic() - started + 1e-9)
        if status["status"] in {"ready", "error", "cancelled"}:
            return
        time.sleep(0.2)


def _draw(bar: Progress, line: TaskID, status: dict[str, Any], rate: float) -> None:
    done = status["indexed_files"] + status["skipped_files"] + status["failed_files"]
    text = f"{done}/{status['total_files']} files  {amount(status['total_chunks'], 'chunk')}  {rate:.0f} chunks/s"
    if status["skipped_files"]:
        text += f"  {status['skipped_files']} skipped"
    if status["warning"]:
        text += f"  {escape(status['warning'])}"
    bar.update(line, completed=status["progress"], text=text)


def _report(console: Console, client: httpx.Client, tool_id: str, status: dict[str, Any]) -> None:
    """Print what was indexed, and what was not and why."""
    console.print(
        f"{amount(status['indexed_files'], 'file')} indexed in {amount(status['total_chunks'], 'chunk')} "
        f"({status['embedded_chunks']} embedded, {status['reused_chunks']} reused, {status['tokens']} tokens)"
    )
    counts = dict(status["ignored"])
    not_obeyed = counts.pop("ignore_file_not_obeyed", 0)
    ignored = ", ".join(excluded(rule, count) for rule, count in sorted(counts.items()))
    if ignored:
        console.print(f"[dim]excluded by rules: {ignored}[/dim]")
    if not_obeyed:
        console.print(f"[yellow]ignore files not applied: {not_obeyed}[/yellow]  see the log of worker-fast")
    for (type_,), group in _groups(client, tool_id, "indexed", "file_type"):
        console.print(f"[green]{group.files} {type_}[/green] in {group.chunk_count}  {group.file_names}")
    for outcome in ("skipped", "failed"):
        groups = _groups(client, tool_id, outcome, "reason", "message", "remedy")
        for (reason, message, remedy), group in groups[:SHOWN_GROUPS]:
            console.print(f"[yellow]{group.files} {outcome}: {reason}[/yellow]  {group.file_names}")
            # a file's own message already names the remedy after its semicolon
            console.print(f"    {escape(message if ';' in message else f'{message} {remedy}')}")
        if len(groups) > SHOWN_GROUPS:
            console.print(f"[yellow]{len(groups) - SHOWN_GROUPS} more reasons: GET {TOOLS}/{tool_id}/files[/yellow]")


@dataclass
class _FileGroup:
    """Files that are reported together. Only the first `SHOWN_NAMES` are named; the rest are counted."""

    files: int = 0
    chunks: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        self.files += 1
        self.chunks += row["chunks"]
        if len(self.names) < SHOWN_NAMES:
            self.names.append(row["file_path"])

    @property
    def chunk_count(self) -> str:
        return amount(self.chunks, "chunk")

    @property
    def file_names(self) -> str:
        more = self.files - len(self.names)
        return escape(", ".join(self.names)) + (f" and {more} more" if more else "")


def _groups(client: httpx.Client, tool_id: str, status: str, *fields: str) -> list[tuple[tuple[str, ...], _FileGroup]]:
    """Group the files of a status by these fields, largest group first."""
    groups: dict[tuple[str, ...], _FileGroup] = defaultdict(_FileGroup)
    for row in _files(client, tool_id, status):
        groups[tuple(row[field_] for field_ in fields)].add(row)
    return sorted(groups.items(), key=lambda item: (-item[1].files, item[0]))


def _files(client: httpx.Client, tool_id: str, status: str) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        params: dict[str, str | int] = {"status": status, "limit": 1000, **({"cursor": cursor} if cursor else {})}
        page = _json(client.get(f"{TOOLS}/{tool_id}/files", params=params))
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _print_answer(console: Console, client: httpx.Client, tool_id: str, query: str) -> None:
    answer = _json(client.post(f"{TOOLS}/{tool_id}/query", json={"query": query, "top_k": 3}))
    console.print(f"\n[bold]{escape(query)}[/bold]  {answer['took_ms']:.0f} ms")
    for hit in answer["results"]:
        place = f"{hit['file_path']}:{hit['start_line']}"
        pointer = f"  {hit['json_pointer']}" if hit["json_pointer"] else ""
        console.print(f"  {hit['score']:.2f}  [cyan]{escape(place)}[/cyan]{escape(pointer)}")
        for text in hit["chunk_text"].strip().splitlines()[:SHOWN_LINES]:
            console.print(f"        {escape(text[:110])}", soft_wrap=True)


def _json(response: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = response.json()
    if response.is_error:
        raise SystemExit(f"{body.get('code')}: {body.get('detail')}")
    return body
