"""Measures the listing of a folder by one process: for the first time, and with nothing changed.

`FILES=1000000` measures other sizes than the usual ones.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from uuid import UUID

from api.stack.postgres import postgres
from schemas.content.source import AnySource, LocalSource
from schemas.tool import IndexSettings, ToolConfig
from tests.bench.size.files import folders
from tests.bench.size.rows import rows, spending
from worker.index.catalog import list_pages, open_listing
from worker.index.lease import open_lease
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import tasks, tool_actions, tools
from worker.state.index.tools import NewIndex
from worker.state.migrate import migrate


def run(place: Path) -> None:
    for size, folder in folders(place):
        with postgres(place / str(size)) as url:
            migrate(url)
            settings = Settings(database_url=url, foldex_home=place / "home", local_source_roots=[place], auth="off")
            measure(Resources(settings), LocalSource(kind="local", path=str(folder)), size)


def measure(resources: Resources, source: AnySource, size: int) -> None:
    """Print what it takes to list a source of `size` files for the first time, and with nothing changed."""
    pool = resources.pool
    settings = {
        "embedder": {"model": "m", "dimensions": 4},
        "chunks": {"size": 64, "overlap": 0},
        "max_file_bytes": 1_000_000,
    }
    wanted = NewIndex("p", source, "h.1", IndexSettings.model_validate(settings), "lancedb", "store")
    tool, task = tools.create(pool, wanted, name="", config=ToolConfig())
    assert task is not None
    _list(resources, task, f"{size} files, listed for the first time", size)
    rows(pool, "UPDATE search_index_file SET status = 'indexed'")
    rows(pool, "UPDATE search_index_task SET status = 'ready'")
    again = tool_actions.reindex(pool, tool, full=False, allow_removals=True)
    assert again is not None
    _list(resources, again, "    listed again, nothing changed", size)
    pool.close()


def _list(resources: Resources, task: UUID, what: str, size: int) -> None:
    with spending(resources.pool) as spent, open_lease(resources.settings.database_url, task) as lease:
        plan = tasks.begin_plan(resources.pool, task, lease.owner)
        assert plan is not None
        index = tools.index(resources.pool, plan.index_id)
        assert index is not None
        opened = partial(resources.source_of, index)
        for _ in list_pages(open_listing(plan, index, opened, resources.pool, lease)):
            pass
    print(f"{what}: {spent}, {spent.processor / size * 1e6:.0f} µs of it a file", flush=True)
