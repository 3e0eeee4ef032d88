"""Files whose tasks a test executes step by step: real rows and vectors, and no process but the test's own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import numpy as np

from api.http.sight import SeenIndex, seen
from schemas.content.acl import EVERYTHING
from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.tool import IndexSettings, ToolConfig
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.database import do
from worker.embed import Vectors
from worker.embed.pace import EmbeddingPace
from worker.index import catalog
from worker.index.embed import embed, recall_vectors
from worker.index.file_states import EmbeddedFile
from worker.index.lease import Lease
from worker.index.pipeline import index_files
from worker.index.prepare import prepare
from worker.index.run import IndexRun
from worker.parse import Limits
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import files, listings, tasks, tool_actions, tools
from worker.state.index.files import FileClaim
from worker.state.pool import Pool
from worker.tokens.tokenizers import cl100k
from worker.vectors import Condition, Leg, Patch, VectorRow, VectorStore


@dataclass(frozen=True)
class Numbers:
    """An embedder that gives each text its own direction."""

    profile: EmbedderProfile
    max_inputs: int = 100
    max_request_tokens: int = 100_000

    def embed(self, texts: Sequence[str]) -> Vectors:
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) for text in texts]
        rows = [np.random.default_rng(seed).standard_normal(self.profile.dimensions) for seed in seeds]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


@contextmanager
def both_stores(home: Path, database_url: str) -> Iterator[Resources]:
    """The resources of a worker, with LanceDB and Turbopuffer."""
    with FakeTurbopuffer() as fake:
        env = {name.lower(): value for name, value in fake.env.items()}
        made = Resources(
            Settings.model_validate({"auth": "off", "foldex_home": home, "database_url": database_url, **env})
        )
        with closing(made.pool):
            yield made


def at_once() -> EmbeddingPace:
    """The pace of an embedder whose vectors are awaited, so that files are written in one step."""
    return EmbeddingPace(1.0)


class Write(NamedTuple):
    """The arguments of one write to a store."""

    namespace: str
    dimensions: int
    upserts: Sequence[VectorRow]
    patches: Sequence[Patch]
    deletes: Sequence[UUID]


@dataclass
class AroundStore:
    """A store whose writes a subclass intercepts."""

    store: VectorStore

    @property
    def has_keywords(self) -> bool:
        return self.store.has_keywords

    @property
    def is_here(self) -> bool:
        return self.store.is_here

    def write(
        self,
        namespace: str,
        dimensions: int,
        upserts: Sequence[VectorRow] = (),
        patches: Sequence[Patch] = (),
        deletes: Sequence[UUID] = (),
    ) -> None:
        self.take(Write(namespace, dimensions, upserts, patches, deletes))

    def take(self, write: Write) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@dataclass
class Late(AroundStore):
    """A store whose writes arrive when a test lets them, like those of a suspended process."""

    #: Runs while a writer is suspended. Without it, writes arrive when a test says so.
    meanwhile: Callable[[], None] | None = None
    waiting: list[Write] = field(default_factory=list)

    def take(self, write: Write) -> None:
        self.waiting.append(write)
        if self.meanwhile:
            self.meanwhile()
            self.arrive()

    def arrive(self) -> None:
        for write in self.waiting:
            self.store.write(*write)
        self.waiting.clear()


class OfTool:
    """The rows behind a test's tool."""

    resources: Resources
    tool: UUID

    @property
    def pool(self) -> Pool:
        return self.resources.pool

    @property
    def index(self) -> SeenIndex:
        found = tools.index_of_tool(self.pool, self.tool)
        assert found is not None
        return seen(found, EVERYTHING)


@dataclass
class Shelf(OfTool):
    """A tool over files that a test moves and edits. `files` are (path, text) by key. `task` is the newest one."""

    resources: Resources
    vector_store: str = "lancedb"
    keyword_index: str = "store"
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    project: str = field(default_factory=lambda: f"p-{uuid4().hex}")
    tool: UUID = field(init=False)
    task: UUID = field(init=False)

    # ---- the source, of which only `read` is used

    def check(self) -> None:
        """Accept the check: the folder exists."""

    def list(self, cursor: str | None) -> ListingPage:
        raise NotImplementedError

    def narrow(self, _keys: Sequence[bytes]) -> None:
        """List everything."""

    def near(self) -> None: ...

    def leaves_out(self, key: bytes) -> bool:
        raise NotImplementedError

    def read(self, key: bytes, limit: int, _listed: str = "", /) -> FileContent:
        data = self.files[key.decode()][1].encode()
        assert len(data) <= limit
        return FileContent(data, self.stamp(key.decode()))

    def stamp(self, key: str) -> str:
        return hashlib.sha256(self.files[key][1].encode()).hexdigest()

    def move(self, key: str, path: str) -> None:
        self.files[key] = path, self.files[key][1]

    def edit(self, key: str, text: str) -> None:
        self.files[key] = self.files[key][0], text

    # ---- tool and tasks

    @property
    def store(self) -> VectorStore:
        return self.resources.store(self.vector_store, self.keyword_index, self.text_key)

    @property
    def text_key(self) -> str | None:
        return self.resources.text_key_for(self.vector_store)

    def wanted(self, dimensions: int = 8) -> tools.NewIndex:
        profile = EmbedderProfile(model="m", dimensions=dimensions)
        settings = IndexSettings(embedder=profile, chunks=ChunkSettings(size=64, overlap=0), max_file_bytes=10**6)
        source = NodesSource(kind="nodes", node_id="folder")
        return tools.NewIndex(
            *(self.project, source, "folder", settings, self.vector_store, self.keyword_index), text_key=self.text_key
        )

    def create(self, dimensions: int = 8) -> UUID:
        """Create the tool and its first task."""
        self.tool, task = tools.create(self.pool, self.wanted(dimensions), name="", config=ToolConfig())
        assert task is not None
        self.task = task
        return self.tool

    def start(self) -> None:
        """Start the next task."""
        task = tool_actions.reindex(self.pool, self.tool, full=False, allow_removals=True)
        assert task is not None
        self.task = task

    def cancel(self) -> None:
        tool_actions.cancel(self.pool, self.tool)

    def delete(self) -> None:
        """Delete the tool, so long ago that no write can still arrive."""
        index_id = self.index.id
        tools.delete(self.pool, self.tool)
        self.do("UPDATE search_index SET deleted_at = now() - interval '1 h' WHERE id = %s", index_id)

    def list_page(self, owner: UUID, *keys: str, last: bool = False) -> None:
        """Record a page of the listing, with all files or some."""
        tasks.begin_plan(self.pool, self.task, owner)
        listed = [catalog._listed(self.index, self._entry(key)) for key in keys or self.files]
        values: dict[str, Any] = {"task_id": self.task, "index_id": self.index.id, "owner": owner}
        listings.record_page(
            self.pool,
            **values,
            listed=listed,
            cursor=None if last else "c",
            unlisted=(),
            ignored={},
            matched=(),
            first=False,
        )
        if last:
            listings.end_listing(
                self.pool, **values, hold=False, left_out=0, warning=None, listing_warning=None, keys=None
            )

    def _entry(self, key: str) -> SourceEntry:
        path, text = self.files[key]
        return SourceEntry(key.encode(), path, f"/folder/{path}", key, len(text), self.stamp(key))

    def index_all(self) -> None:
        """List everything, and index it like one worker without faults."""
        self.list_page(uuid4(), last=True)
        run = self.run()
        while claims := self.claim(run):
            index_files(run, claims)
        assert tasks.refresh(self.pool, self.task, self.index.id) is not None

    # ---- workers

    def run(self, owner: UUID | None = None, store: VectorStore | None = None) -> IndexRun:
        """A worker on the open task, whose lease lasts until a test ends it."""
        task = tasks.running(self.pool, self.task)
        assert task is not None
        lease = Lease()
        lease.owner = owner or lease.owner
        lease._renewed = math.inf
        index = self.index
        embedder = Numbers(index.settings.embedder)
        given = (index, task.epoch, self, cl100k(), embedder, store or self.store, self.pool, lease)
        return IndexRun(*given, 1, Limits(), at_once())

    def claim(self, run: IndexRun, most: int = 1000) -> Sequence[FileClaim]:
        values: dict[str, Any] = {"task_id": self.task, "index_id": run.index.id, "owner": run.lease.owner}
        return files.claim(self.pool, **values, max_files=most, max_bytes=1 << 40)

    def embedded(self, run: IndexRun) -> Sequence[EmbeddedFile]:
        """Claimed files with their vectors, not written yet."""
        files_, stopped = embed(run, recall_vectors(run, prepare(run, self.claim(run))), more=False)
        assert stopped is None
        return files_

    def expire(self, run: IndexRun) -> None:
        """Let a worker's lease run out. The worker notices only when it checks."""
        self.do("DELETE FROM file_lease WHERE owner = %s", run.lease.owner)
        self.do(
            "UPDATE search_index_file SET status = 'pending', lease_owner = NULL WHERE lease_owner = %s",
            run.lease.owner,
        )
        run.lease._renewed = -math.inf

    # ---- inspection

    def do(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        return do(self.pool, statement, *values)

    def texts(self) -> dict[str, str]:
        """The live text of each file, by path."""
        query = """
            SELECT f.path, string_agg(c.chunk_text, '' ORDER BY c.chunk_index)
            FROM chunk c JOIN search_index_file f ON f.id = c.file_id WHERE c.index_id = %s AND c.live GROUP BY f.path
            """
        return dict(self.do(query, self.index.id))

    def live(self) -> set[UUID]:
        return {id_ for (id_,) in self.do("SELECT id FROM chunk WHERE index_id = %s AND live", self.index.id)}

    def at(self, path: str) -> set[UUID]:
        """Ids of the store's rows at a path."""
        here = [Condition("file_id_path", "in", [f"/folder/{path}"])]
        index = self.index
        anything = np.ones(index.settings.embedder.dimensions, dtype=np.float32)
        (found,) = self.store.search(index.namespace, [Leg(1000, vector=anything, conditions=here)])
        return {UUID(hit.id) for hit in found}

    def vectors(self) -> set[UUID]:
        index = self.index
        return set(self.store.ids(index.namespace, None, 10_000))


def three_files(resources: Resources, stores: str) -> Shelf:
    """A tool over three files that are not listed yet. `stores` names the vector store and the keyword index."""
    vector_store, _, keyword_index = stores.partition("-")
    made = Shelf(resources, vector_store, keyword_index)
    made.files = {str(n): (f"{n}.md", f"# File {n}\n\nFile {n} tells of apples.\n") for n in range(3)}
    made.create()
    return made
