"""Foldex as real processes, with its real thresholds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.service import Service, eventually
from worker.resources import Resources
from worker.settings import Settings

#: Seconds within which everything must come to rest.
WAIT_SECONDS = 90.0


@dataclass
class Served:
    """A running service. `resources` inspect it directly."""

    service: Service
    client: httpx.Client
    resources: Resources

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.service.rows(query, *values)

    def work(self, messages: int = 1) -> bool:
        """Give the service some time, 50 ms per message."""
        time.sleep(0.05 * messages)
        return True

    def settle(self) -> None:
        """Wait until no task and no change is open."""
        eventually(lambda: not self._open(), WAIT_SECONDS, lambda: f"{self._open()}\n{self.service.logs()}")

    def outlive(self) -> None:
        """Let the time pass after which late writes are impossible, and wait for the cleaning that follows."""
        for table, column in (("chunk_tombstone", "created_at"), ("search_index", "deleted_at")):
            with self.resources.pool.connection() as connection:
                connection.execute(f"UPDATE {table} SET {column} = {column} - interval '2 h'".encode())
        left = "SELECT FROM chunk_tombstone UNION ALL SELECT FROM search_index WHERE deleted_at IS NOT NULL"
        eventually(lambda: not self.rows(left), WAIT_SECONDS, self.service.logs)

    def _open(self) -> list[tuple[Any, ...]]:
        return self.rows(
            """
            SELECT t.id::text, t.status, t.total_files, t.indexed_files, t.warning FROM search_index_task t
            WHERE t.status IN ('pending', 'indexing')
            UNION ALL SELECT index_id::text, 'change', 0, 0, '' FROM search_index_change WHERE due_at IS NOT NULL
            """
        )


@contextmanager
def served(service: Service) -> Iterator[Served]:
    """Drive a running service."""
    settings = {name.lower(): value for name, value in service.env.items() if value}
    resources = Resources(Settings.model_validate(settings))
    with closing(resources.pool):
        yield Served(service, service.client, resources)
