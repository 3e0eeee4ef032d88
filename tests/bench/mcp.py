"""Measures what the Model Context Protocol adds to a query: the same one over HTTP, at `/mcp` and by `foldex mcp`."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from api.agents.fitting import counted
from tests.agents import over_http, over_stdio
from tests.bench.running import running
from tests.service import TOOLS
from worker.settings import LOCAL_MODEL

RUNS = 100
FILES = 50
QUERY = "where are leases renewed"


def run(place: Path) -> None:
    folder = place / "folders" / "notes"
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / f"{number}.md").write_text(f"# {number}\n\nA thread renews lease {number} every two seconds.\n")
    with running(place, place / "folders", DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL) as service, ExitStack() as opened:
        tool = service.local_tool(folder)
        service.wait(tool)
        agents = {
            "/mcp": opened.enter_context(over_http(service)),
            "/mcp, protocol of 2025": opened.enter_context(over_http(service, mode="legacy")),
            "foldex mcp": opened.enter_context(over_stdio(service)),
        }
        body = {"query": QUERY, "top_k": 8}
        ways: dict[str, Callable[[], str]] = {
            "the query over HTTP": lambda: service.client.post(f"{TOOLS}/{tool}/query", json=body).text
        }
        for name, agent in agents.items():
            ways[name] = lambda agent=agent: agent.ask("search", folder=str(folder), **body)  # type: ignore[misc]
        _compare(ways)
        tools = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in agents["/mcp"].tools().values()
        ]
        read = [{name: each[name] for name in ("name", "description", "inputSchema")} for each in tools]
        alone, whole = counted(json.dumps(read)), counted(json.dumps(tools))
        print(f"tokens of the list of tools: {alone}, and {whole} with the schemas of their answers")


def _compare(ways: dict[str, Callable[[], str]]) -> None:
    """Print the medians of all ways, taken in turn so that the machine's load is the same for each."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(RUNS + 5):
        for name, ask in ways.items():
            began = time.perf_counter()
            ask()
            if number >= 5:  # the first ones load the model and the SDK
                took[name].append(1000 * (time.perf_counter() - began))
    [plain, *_] = [statistics.median(times) for times in took.values()]
    for name, times in took.items():
        median = statistics.median(times)
        print(f"{name}: {median:.1f} ms, {median - plain:+.1f} ms, {counted(ways[name]())} tokens (medians of {RUNS})")
