"""A store that bills writes gets each row once, with its vector; until then Postgres finds the words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.integration.shelf import AroundStore, Shelf, Write, both_stores, three_files
from worker.embed.pace import EmbeddingPace
from worker.index.pipeline import claim_vectors, index_files
from worker.index.run import IndexRun
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index import tasks
from worker.upkeep import fsck


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[Resources]:
    with both_stores(tmp_path_factory.mktemp("words-first"), database_url) as made:
        yield made


@dataclass
class Noting(AroundStore):
    """A store that notes the rows that it gets."""

    with_vector: list[UUID] = field(default_factory=list)
    without: list[UUID] = field(default_factory=list)

    def take(self, write: Write) -> None:
        for row in write.upserts:
            (self.without if row.vector is None else self.with_vector).append(row.id)
        self.store.write(*write)


@dataclass
class Steps:
    """A folder on a shelf whose vectors are late."""

    shelf: Shelf
    store: Noting

    def run(self) -> IndexRun:
        words_in_store = self.shelf.resources.words_in_store(self.shelf.index)
        run = self.shelf.run(store=self.store)
        return replace(run, pace=EmbeddingPace(), words_in_store=words_in_store)

    def words(self) -> None:
        run = self.run()
        while claims := self.shelf.claim(run):
            index_files(run, claims)

    def vectors(self) -> None:
        run = self.run()
        while claims := claim_vectors(run, self.shelf.task):
            index_files(run, claims)
        assert tasks.refresh(self.shelf.pool, self.shelf.task, self.shelf.index.id)

    def in_postgres(self, word: str) -> int:
        """Chunks that Postgres finds by a word."""
        query = "SELECT count(*) FROM chunk WHERE index_id = %s AND live AND keywords @@ to_tsquery('simple', %s)"
        ((found,),) = self.shelf.do(query, self.shelf.index.id, word)
        return int(found)

    def live(self) -> set[UUID]:
        return {
            id_ for (id_,) in self.shelf.do("SELECT id FROM chunk WHERE index_id = %s AND live", self.shelf.index.id)
        }


@pytest.mark.parametrize("kind", ["lancedb-store", "lancedb-postgres", "turbopuffer-store", "turbopuffer-postgres"])
def test_a_row_is_billed_once_and_found_before(resources: Resources, kind: str) -> None:
    shelf = three_files(resources, kind)
    shelf.list_page(uuid4(), last=True)
    steps = Steps(shelf, Noting(shelf.store))
    steps.words()
    live = steps.live()
    assert live
    is_twice = kind == "lancedb-store"
    assert {*steps.store.without} == (live if is_twice else set())
    assert bool(steps.in_postgres("appl")) is not is_twice
    report = fsck.inspect(shelf.pool, shelf.store, shelf.index)
    assert not report.drift
    steps.vectors()
    assert sorted(steps.store.with_vector) == sorted(live) == shelf.store.ids(shelf.index.namespace, None, 1000)
    kept = shelf.do("SELECT count(*) FROM chunk WHERE index_id = %s AND keywords IS NOT NULL", shelf.index.id)
    assert kept == [(len(live) if kind.endswith("postgres") else 0,)]
    assert not fsck.inspect(shelf.pool, shelf.store, shelf.index).drift


def test_a_move_is_found_while_postgres_holds_the_words(resources: Resources) -> None:
    shelf = three_files(resources, "turbopuffer-store")
    shelf.list_page(uuid4(), last=True)
    steps = Steps(shelf, Noting(shelf.store))
    steps.words()
    shelf.cancel()
    shelf.start()
    key = next(iter(shelf.files))
    shelf.move(key, "quincetree.md")
    shelf.list_page(uuid4(), last=True)
    fsck.mark_lost_before_listing(shelf.pool, shelf.store, shelf.index, shelf.task)
    assert steps.in_postgres("quincetre | quincetree") == 0
    steps.words()
    assert steps.in_postgres("quincetre | quincetree") > 0
    steps.vectors()
    assert steps.in_postgres("quincetre | quincetree") == 0
    assert {*shelf.store.ids(shelf.index.namespace, None, 1000)} == steps.live()


@pytest.mark.parametrize(("words_first", "least", "most"), [("postgres", 0.95, 1.05), ("store", 1.3, 2.1)])
def test_a_store_that_bills_writes_gets_hardly_more_bytes_in_two_steps(
    tmp_path: Path, database_url: str, words_first: str, least: float, most: float
) -> None:
    with FakeTurbopuffer() as fake:
        env = {name.lower(): value for name, value in fake.env.items()} | {"words_first": words_first}
        settings = {"auth": "off", "foldex_home": tmp_path / "home", "database_url": database_url, **env}
        resources = Resources(Settings.model_validate(settings))
        with closing(resources.pool):
            sizes = [_bytes_written(resources, fake, is_late=is_late) for is_late in (False, True)]
    assert least <= sizes[1] / sizes[0] <= most


def _bytes_written(resources: Resources, fake: FakeTurbopuffer, *, is_late: bool) -> int:
    """The bytes that the store gets of a folder whose vectors are awaited, or late."""
    files = {str(n): (f"{n}.md", f"# File {n}\n\n" + f"Apples, pears and plums of {n}. " * 40) for n in range(20)}
    shelf = Shelf(resources, "turbopuffer", "store", files)
    shelf.create()
    fake.received = []
    steps = Steps(shelf, Noting(shelf.store))
    if is_late:
        shelf.list_page(uuid4(), last=True)
        steps.words()
        steps.vectors()
    else:
        shelf.index_all()
    assert shelf.store.ids(shelf.index.namespace, None, 1000) == sorted(steps.live())
    return sum(map(len, fake.received))
