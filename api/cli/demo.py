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

from api.stack import stack
from api.stack.programs import ROOT
from worker.settings import Settings

PROJECT = "demo"
#: Queries for this repository, if the user names no other folder.
OWN_QUESTIONS = (
    "how does a task go on after its worker was killed",
    "cuts re-synchronise after a line is inserted",
    "retry when the embedding provider answers 429",
)
#: Excluded from this repository: otherwise the queries find themselves first.
OWN_FILE = f"/{Path(__file__).relative_to(ROOT)}"
QUESTIONS = ("overview", "configuration settings", "how to get started")
TOOLS = "/api/tools/search"
SHOWN_LINES = 3
SHOWN_NAMES = 20
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
        tool = _create(client, root)
        status = _watch(console, client, tool, root)
        _report(console, client, tool, status)
        if status["status"] != "ready":
            console.print(f"[red]{escape(status['error'] or status['status'])}[/red]")
            return 1
        for query in queries or (OWN_QUESTIONS if folder is None else QUESTIONS):
            _ask(console, client, tool, query)
    return 0


def _create(client: httpx.Client, root: Path) -> str:
    body: dict[str, Any] = {"project_id": PROJECT, "source": {"kind": "local", "path": str(root)}, "name": root.name}
    if root == ROOT:
        body["config"] = {"exclude": [OWN_FILE]}
    return str(_json(client.post(TOOLS, json=body))["tool_id"])


def _watch(console: Console, client: httpx.Client, tool: str, root: Path) -> dict[str, Any]:
    """Poll the status until the task ends, and draw its progress."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        line = bar.add_task(escape(root.name), total=1.0, text="")
        for status, rate in _polls(client, tool):
            _draw(bar, line, status, rate)
    return status


def _polls(client: httpx.Client, tool: str) -> Iterator[tuple[dict[str, Any], float]]:
    started = time.monotonic()
    while True:
        status = _json(client.get(f"{TOOLS}/{tool}/status"))
        yield status, status["embedded_chunks"] / (time.monotonic() - started + 1e-9)
        if status["status"] in {"ready", "error", "cancelled"}:
            return
        time.sleep(0.2)


def _draw(bar: Progress, line: TaskID, status: dict[str, Any], rate: float) -> None:
    done = status["indexed_files"] + status["skipped_files"] + status["failed_files"]
    text = f"{done}/{status['total_files']} files  {status['total_chunks']} chunks  {rate:.0f} chunks/s"
    if status["skipped_files"]:
        text += f"  {status['skipped_files']} skipped"
    if status["warning"]:
        text += f"  {escape(status['warning'])}"
    bar.update(line, completed=status["progress"], text=text)


def _report(console: Console, client: httpx.Client, tool: str, status: dict[str, Any]) -> None:
    """Print what was indexed, and what was not and why."""
    console.print(
        f"{status['indexed_files']} files indexed in {status['total_chunks']} chunks "
        f"({status['embedded_chunks']} embedded, {status['reused_chunks']} unchanged, {status['tokens']} tokens)"
    )
    counts = dict(status["ignored"])
    not_obeyed = counts.pop("ignore_file_not_obeyed", 0)
    ignored = ", ".join(f"{count} {rule}" for rule, count in sorted(counts.items()))
    if ignored:
        console.print(f"[dim]left out by rules: {ignored}[/dim]")
    if not_obeyed:
        console.print(f"[yellow]ignore files not obeyed: {not_obeyed}[/yellow]  the log of worker-fast names them")
    for (type_,), group in _groups(client, tool, "indexed", "file_type"):
        console.print(f"[green]{group.files} {type_}[/green] in {group.parts}  {group.shown}")
    for kind in ("skipped", "failed"):
        groups = _groups(client, tool, kind, "reason", "message", "remedy")
        for (reason, message, remedy), group in groups[:SHOWN_GROUPS]:
            console.print(f"[yellow]{group.files} {kind}: {reason}[/yellow]  {group.shown}")
            # a file's own message already names the remedy after its semicolon
            console.print(f"    {escape(message if ';' in message else f'{message} {remedy}')}")
        if len(groups) > SHOWN_GROUPS:
            console.print(f"[yellow]{len(groups) - SHOWN_GROUPS} further reasons: GET {TOOLS}/{tool}/files[/yellow]")


@dataclass
class _Group:
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
    def parts(self) -> str:
        return f"{self.chunks} chunk{'s' * (self.chunks != 1)}"

    @property
    def shown(self) -> str:
        more = self.files - len(self.names)
        return escape(", ".join(self.names)) + (f" and {more} more" if more else "")


def _groups(client: httpx.Client, tool: str, kind: str, *names: str) -> list[tuple[tuple[str, ...], _Group]]:
    """Group the files of a status by these fields, largest group first."""
    found: dict[tuple[str, ...], _Group] = defaultdict(_Group)
    for row in _files(client, tool, kind):
        found[tuple(row[name] for name in names)].add(row)
    return sorted(found.items(), key=lambda item: (-item[1].files, item[0]))


def _files(client: httpx.Client, tool: str, kind: str) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        params: dict[str, str | int] = {"status": kind, "limit": 1000, **({"cursor": cursor} if cursor else {})}
        page = _json(client.get(f"{TOOLS}/{tool}/files", params=params))
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _ask(console: Console, client: httpx.Client, tool: str, query: str) -> None:
    answer = _json(client.post(f"{TOOLS}/{tool}/query", json={"query": query, "top_k": 3}))
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
