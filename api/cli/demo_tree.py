"""The tree of summaries in `make demo`: its progress, and a question that summaries answer."""

from __future__ import annotations

import time
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape

from api.cli.terminal.output import amount
from worker.settings import LOCAL_LLM

#: Path of the calls for search tools.
TOOLS = "/api/tools/search"
#: What a tree of the demo is: one that needs no further library, and costs nothing whatever model is configured.
RAPTOR = {"enabled": True, "cluster_method": "adjacent", "llm_model": LOCAL_LLM}
#: Summaries that are printed, and characters of each.
SHOWN_SUMMARIES = 3
SHOWN_CHARACTERS = 300
#: Seconds between two polls.
POLL_SECONDS = 0.3


def follow(console: Console, client: httpx.Client, tool_id: str) -> bool:
    """Wait until the tree is complete, and print how many summaries it has. Returns whether it has any."""
    if not console.is_terminal:
        console.print("summarising …")
    with console.status("summarising") as line:
        status = _status(client, tool_id)
        while status["indexing_status"] in {"none", "pending", "indexing"}:
            line.update(f"summarising  {status['progress']:.0%}  {escape(status['warning'] or '')}")
            time.sleep(POLL_SECONDS)
            status = _status(client, tool_id)
    if status["indexing_status"] != "indexed":
        console.print(f"[yellow]no tree of summaries: {escape(status['error'] or status['indexing_status'])}[/yellow]")
        return False
    summaries = amount(status["summary_nodes"], "summary", "summaries")
    console.print(
        f"{summaries} in {amount(status['max_level'], 'layer')} over {amount(status['leaf_nodes'], 'text')} "
        f"[dim](sentences chosen by {status['model']}, which extracts and does not write)[/dim]"
    )
    return bool(status["summary_nodes"])


def print_summaries(console: Console, client: httpx.Client, tool_id: str, query: str) -> None:
    """Print the summaries that are nearest to a question."""
    body = {"query": query, "tree": "tree_traversal", "expand_to_leaves": False}
    answer = client.post(f"{TOOLS}/{tool_id}/query", json=body).raise_for_status().json()
    console.print(f"\n[bold]{escape(query)}[/bold]  in the tree of summaries  {answer['took_ms']:.0f} ms")
    nearest = sorted(answer["summaries"], key=lambda each: -each["score"])
    for summary in nearest[:SHOWN_SUMMARIES]:
        place = f"level {summary['level']}, files: {len(summary['file_paths'])}"
        console.print(f"  {summary['score']:.2f}  [cyan]{place}[/cyan]")
        console.print(f"        {escape(summary['text'][:SHOWN_CHARACTERS])}")


def _status(client: httpx.Client, tool_id: str) -> dict[str, Any]:
    status: dict[str, Any] = client.get(f"{TOOLS}/{tool_id}/raptor/status").raise_for_status().json()
    return status
