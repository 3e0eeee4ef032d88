"""A folder with a tool, whose tasks a test executes step by step: real rows and vectors, and no other process.

All calls of `worker.state` for claims and tasks are here, so that their arguments are in one place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from schemas.content.source import AnySource, LocalSource
from schemas.errors import LeaseLost
from schemas.tool import IndexSettings, ToolConfig
from tests.integration.database import do
from tests.integration.shelf import OfTool, at_once
from worker.index.catalog import list_pages, open_listing
from worker.index.embed import embed, recall_vectors
from worker.index.file_states import EmbeddedFile
from worker.index.lease import Lease
from worker.index.pipeline import index_files
from worker.index.prepare import prepare
from worker.index.run import IndexRun
from worker.parse import Limits
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings
from worker.state.index import files, tasks, tool_actions, tools
from worker.state.index.files import FileClaim
from worker.state.index.tools import NewIndex

#: Number of files of a folder.
FILES = 4


class Killed(BaseException):
    """Ends a process at this point. No handler of the product catches it, as none would run in a killed process."""


def resources_in(home: Path, database_url: str, **given: Any) -> Resources:
    """The resources of a worker, with the local model and LanceDB."""
    settings = Settings(
        auth="off",
        foldex_home=home,
        database_url=database_url,
        default_embedding_model=LOCAL_MODEL,
        vector_store="lancedb",
        keyword_index="store",
        local_source_roots=[home.parent],
        **given,
    )
    return Resources(settings)


@dataclass
class Site(OfTool):
    """A tool over a folder. `task` is the newest one."""

    resources: Resources
    folder: Path
    project: str = field(default_factory=lambda: f"p-{uuid4().hex}")
    source: AnySource | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    tool: UUID = field(init=False)
    task: UUID = field(init=False)

    def __post_init__(self) -> None:
        self.tool, task = tools.create(self.pool, self.wanted(), name="", config=ToolConfig())
        assert task is not None
        self.task = task

    def wanted(self, **changed: Any) -> NewIndex:
        """What the tool requests, or would request with other settings."""
        profile, _ = self.resources.profile(None, None)
        given = {"embedder": profile, "chunks": {"size": 64, "overlap": 0}, "max_file_bytes": 1_000_000}
        given |= self.settings | changed
        source = self.source or LocalSource(kind="local", path=str(self.folder))
        return NewIndex(self.project, source, "h.1", IndexSettings.model_validate(given), "lancedb", "store")

    # ---- tasks

    def list_folder(self, owner: UUID | None = None) -> None:
        """List the folder for the open task."""
        lease = lease_of(owner)
        plan = tasks.begin_plan(self.pool, self.task, lease.owner)
        assert plan is not None
        listing = open_listing(plan, self.index, partial(self.resources.source_of, self.index), self.pool, lease)
        assert [page.last for page in list_pages(listing)][-1]

    def start(self) -> UUID:
        """Start the next task."""
        task = tool_actions.reindex(self.pool, self.tool, full=False, allow_removals=True)
        assert task is not None
        self.task = task
        return task

    def again(self) -> None:
        """Start and list the next task."""
        self.start()
        self.list_folder()

    def cancel(self) -> None:
        tool_actions.cancel(self.pool, self.tool)

    def refresh(self) -> bool:
        """Count the files into the task. Returns whether the task ended."""
        return tasks.refresh(self.pool, self.task, self.index.id) is not None

    def finish_all(self) -> None:
        """Index everything that is left, like one worker without faults."""
        run = self.worker()
        while claims := self.claim(run):
            index_files(run, claims)
        assert self.refresh()

    # ---- workers

    def worker(self, owner: UUID | None = None) -> IndexRun:
        """A worker on the open task, whose lease lasts until a test ends it."""
        task = tasks.running(self.pool, self.task)
        assert task is not None
        r, index = self.resources, self.index
        settings = index.settings
        return IndexRun(
            index=index,
            epoch=task.epoch,
            source=r.source_of(index),
            tokenizer=r.tokenizer(settings.embedder),
            embedder=r.embedder(settings.embedder, explicit_dimensions=False),
            store=r.store_of(index),
            pool=self.pool,
            lease=lease_of(owner),
            concurrency=1,
            limits=Limits(),
            pace=at_once(),
        )

    def claim(self, run: IndexRun, most: int = 1000, *, task: UUID | None = None) -> list[FileClaim]:
        claims = self.claim_words(run, most, task=task)
        values: dict[str, Any] = {"task_id": task or self.task, "index_id": run.index.id, "owner": run.lease.owner}
        return claims or files.claim_vectors(self.pool, **values, max_files=most, most=1 << 20, least=1 << 20)

    def claim_words(self, run: IndexRun, most: int = 1000, *, task: UUID | None = None) -> list[FileClaim]:
        values: dict[str, Any] = {"task_id": task or self.task, "index_id": run.index.id, "owner": run.lease.owner}
        return files.claim(self.pool, **values, max_files=most, max_bytes=1 << 40)

    def expire(self, run: IndexRun) -> list[tuple[UUID, str, int]]:
        """Let the leases of a worker run out without its knowledge. Returns what the sweep releases."""
        self.do("DELETE FROM file_lease WHERE owner = %s", run.lease.owner)
        return files.return_expired(self.pool)

    # ---- inspection

    def do(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        return do(self.pool, statement, *values)

    def copy_row(self, table: str, original: UUID, **changed: Any) -> UUID:
        """Insert a copy of a row, under a new id and with some columns changed. Returns its id."""
        row = {"id": str(uuid4()), **changed}
        copy = f"INSERT INTO {table} SELECT (jsonb_populate_record(r, %s)).* FROM {table} r WHERE id = %s"
        self.do(copy, Jsonb(row), original)
        return UUID(row["id"])

    def outcomes(self) -> dict[str, str]:
        """Status of the files, by path."""
        return dict(self.do("SELECT path, status FROM search_index_file WHERE index_id = %s", self.index.id))

    def chunks(self, *, live: bool) -> set[UUID]:
        query = "SELECT id FROM chunk WHERE index_id = %s AND live = %s"
        return {id_ for (id_,) in self.do(query, self.index.id, live)}

    def drafts(self) -> set[UUID]:
        return {id_ for (id_,) in self.do("SELECT unnest(ids) FROM chunk_draft WHERE index_id = %s", self.index.id)}

    def tombstones(self) -> set[UUID]:
        return {id_ for (id_,) in self.do("SELECT id FROM chunk_tombstone WHERE index_id = %s", self.index.id)}

    def vectors(self) -> set[UUID]:
        """Every id in the store."""
        index = self.index
        store = self.resources.store_of(index)
        return set(store.ids(index.namespace, None, 1_000_000))

    def prove(self) -> None:
        """Assert that all chunks are live and have vectors, and that every other vector has a draft or a tombstone."""
        live, held = self.chunks(live=True), self.vectors()
        assert self.chunks(live=False) == set()
        assert live <= held
        assert held <= live | self.drafts() | self.tombstones()


def lease_of(owner: UUID | None = None) -> Lease:
    """A lease that nobody renews and that lasts until a test ends it."""
    lease = Lease()
    lease.owner = owner or lease.owner
    lease._renewed = math.inf
    return lease


def refused(action: Any) -> bool:
    """Whether a fence stops the caller."""
    with suppress(LeaseLost):
        action()
        return False
    return True


def write(folder: Path, number: int, text: str) -> None:
    (folder / f"{number}.md").write_text(f"# File {number}\n\n{text}\n")


def embedded(site: Site, run: IndexRun) -> Sequence[EmbeddedFile]:
    """Claimed files with their vectors, not written yet."""
    files_, stopped = embed(run, recall_vectors(run, prepare(run, site.claim(run))), more=False)
    assert stopped is None
    return files_


def drafts_of(made: Sequence[EmbeddedFile]) -> list[tuple[FileClaim, list[UUID]]]:
    return [(file.claim, [chunk.id for chunk in file.state.new]) for file in made]


def new_ids(made: Sequence[EmbeddedFile]) -> set[UUID]:
    return {id_ for _, ids in drafts_of(made) for id_ in ids}


def new_site(resources: Resources, number: int = 2, **given: Any) -> Site:
    folder = resources.home.parent / uuid4().hex
    folder.mkdir()
    for name in range(number):
        (folder / f"{name}.md").write_text(f"# File {name}\n\nSome text.\n")
    return Site(resources, folder, **given)


def listed_site(resources: Resources, number: int = 2, **given: Any) -> Site:
    made = new_site(resources, number, **given)
    made.list_folder()
    return made


def passes(resources: Resources, seconds: float) -> None:
    """Let time pass for sent messages and recorded changes."""
    with resources.pool.connection() as connection:
        for table, columns in (
            ("search_index_task", ("sent_at", "created_at", "counted_at")),
            ("search_index_change", ("since", "due_at", "ran_at", "rest_until")),
        ):
            moved = ", ".join(f"{column} = {column} - make_interval(secs => {seconds})" for column in columns)
            connection.execute(f"UPDATE {table} SET {moved}".encode())
