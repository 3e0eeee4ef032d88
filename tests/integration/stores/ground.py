"""A service with one vector store and one keyword index, and functions that change its data behind its back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from api.cli.fsck import check, lines
from tests.fakes.embeddings import EmbeddingsFake
from tests.forked import run_forked
from tests.service import Service, eventually
from worker.resources import Resources
from worker.state.exclusive import try_exclusive
from worker.state.index import drift, tools
from worker.state.index.tools import Index
from worker.upkeep.fsck import IndexReport, inspect
from worker.upkeep.sweep import SWEEP
from worker.vectors import VectorStore

LONG_AGO = 1_600_000_000
WORDS = ["apples", "birds", "cars", "doors", "eggs", "flags"]
WELL = {"missing": 0, "stray": 0, "miscounted": 0, "bare": 0, "unfinished": 0, "overdue": 0}


@dataclass
class Ground:
    """A service with one worker over one store and a provider that counts, and ways to change their data directly."""

    service: Service
    provider: EmbeddingsFake
    resources: Resources
    root: Path

    def folder(self, name: str, files: int = len(WORDS)) -> Path:
        """Write files of three sections each, in which all texts differ."""
        path = self.root / name
        path.mkdir()
        for number in range(files):
            text = "".join(f"# {word} {number}\n\nAbout {word} of {name}, file {number}.\n\n" for word in WORDS[:3])
            (path / f"{number}.md").write_text(text)
            os.utime(path / f"{number}.md", (LONG_AGO, LONG_AGO + number))
        return path

    def indexed(self, name: str) -> tuple[str, Index]:
        """A tool over a new folder, and its index. The audit of the provider is empty."""
        tool = self.service.local_tool(self.folder(name))
        self.service.wait(tool)
        self.provider.reset()
        index = self.index(tool)
        # so that it finds nothing of what a test does
        self.follow_up(index)
        return tool, index

    def follow_up(self, index: Index) -> None:
        """Wait until the follow-up of each task has ended."""
        compared = """
            SELECT max(t.finished_at) < i.checked_at FROM search_index i JOIN search_index_task t ON t.index_id = i.id
            WHERE i.id = %s GROUP BY i.id
            """
        eventually(lambda: bool(self.service.rows(compared, index.id)[0][0]), 20, self.service.logs)

    def index(self, tool: str) -> Index:
        (index_id,) = drift.indexes(self.resources.pool, UUID(tool))
        found = tools.index(self.resources.pool, index_id)
        assert found is not None
        return found

    def store(self, index: Index) -> VectorStore:
        return self.resources.store_of(index)

    def ids(self, index: Index, path: str | None = None) -> list[UUID]:
        """Live chunks of an index, or of one of its files, in order."""
        query = """
            SELECT c.id FROM chunk c JOIN search_index_file f ON f.id = c.file_id
            WHERE c.index_id = %s AND c.live AND f.path = coalesce(%s, f.path) ORDER BY f.path, c.chunk_index
            """
        return [row[0] for row in self.service.rows(query, index.id, path)]

    def forget(self, index: Index, ids: list[UUID]) -> None:
        self.store(index).write(index.namespace, index.settings.embedder.dimensions, deletes=ids)

    def report(self, index: Index) -> IndexReport:
        return inspect(self.resources.pool, self.store(index), index)

    def differs(self, index: Index) -> dict[str, int]:
        return self.report(index).drift

    def execute(self, query: str, *values: object) -> None:
        with self.resources.pool.connection() as connection:
            connection.execute(query.encode(), values)

    def drop_cache(self, ids: list[UUID]) -> None:
        """Remove these chunks from the embedding cache."""
        self.execute(
            "DELETE FROM embedding_cache e USING chunk c"
            " WHERE c.id = ANY (%s) AND e.text_hash = decode(substr(c.content_hash, 8), 'hex')",
            ids,
        )

    def stored(self, index: Index) -> list[UUID]:
        return self.store(index).ids(index.namespace, None, 10_000)

    def paid(self) -> int:
        return self.provider.audit.texts.total()

    def texts(self, tool: str) -> list[tuple[Any, ...]]:
        return self.service.rows(
            """
            SELECT f.path, c.chunk_index, c.chunk_text, c.start_char, c.lead, c.trail
            FROM chunk c JOIN search_index_file f ON f.id = c.file_id JOIN search_tool s ON s.index_id = c.index_id
            WHERE s.id = %s AND c.live ORDER BY 1, 2
            """,
            tool,
        )

    @contextmanager
    def without_sweep(self) -> Iterator[None]:
        """Pause the sweep inside the block."""
        with ExitStack() as stack:
            eventually(lambda: stack.enter_context(try_exclusive(self.service.database_url, SWEEP)), 10)
            yield

    def fsck(self, tool: str | None, *, repair: bool = False) -> tuple[bool, str]:
        """Whether there are no differences, and the output of the command."""
        found = list(check(Resources(self.resources.settings), UUID(tool) if tool else None, repair=repair))
        return all(each.ok for each in found), "\n".join(line for each in found for line in lines(each))

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run the command as a user does."""
        ended = run_forked(self.service.home, self.service.env, "fsck", *arguments)
        return ended.returncode, ended.stdout + ended.stderr

    def settle(self, tool: str, index: Index) -> dict[str, Any]:
        """Wait for the repairing task, and assert that no differences are left."""
        status = self.service.wait(tool)
        assert self.differs(index) == {}, self.service.logs()
        return status
