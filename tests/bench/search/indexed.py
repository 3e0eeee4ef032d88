"""The folders of the question sets, indexed once by the real service and kept in `BENCH_HOME`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from schemas.content.source import Granularity
from tests.bench.running import running
from tests.service import Service
from worker.settings import LOCAL_MODEL, Settings

#: Settings that the benchmark fixes; `BENCH_MODEL` names the embedding model. Every other setting of the environment
#: applies to the service.
DECIDED = {
    *("foldex_home", "database_url", "celery_broker_url", "redis_url", "api_host", "api_port", "flower_port", "auth"),
    *("default_embedding_model", "embedding_dimensions", "local_source_roots"),
}


@contextmanager
def indexed(
    place: Path, fills: Mapping[str, Callable[[Path], None]], granularity: Granularity | None = None
) -> Iterator[tuple[Service, dict[str, str]]]:
    """The service, and the tool of each folder. Each folder has a name, and a function that writes its files.

    Folders that an earlier run indexed there are not indexed again. A `granularity`, if given, ends the tools' names.
    """
    folders, settings = place / "folders", settings_of_run()
    folders.mkdir(parents=True, exist_ok=True)
    record = place / f"tools-{settings.get('KEYWORD_INDEX', 'store')}.json"
    tools: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    suffix = f"-{granularity}" if granularity else ""
    missing = [name for name in fills if name + suffix not in tools]
    env = {**settings, "DEFAULT_EMBEDDING_MODEL": os.environ.get("BENCH_MODEL", LOCAL_MODEL)}
    with running(place, folders, 2 if missing else 0, 0, **env) as service:
        for name in missing:
            if not (folders / name).exists():
                fills[name](folders / name)
            tools[name + suffix] = _index(service, folders / name, granularity)
            record.write_text(json.dumps(tools))
        yield service, tools


@cache
def settings_of_run() -> dict[str, str]:
    """The environment's settings. They are read once, because the first service empties them."""
    names = {name.upper() for name in Settings.model_fields.keys() - DECIDED}
    return {name: value for name, value in os.environ.items() if name in names}


def _index(service: Service, folder: Path, granularity: Granularity | None) -> str:
    tool = service.local_tool(folder, config={"granularity": granularity})
    service.wait(tool, seconds=1_800)
    return tool
