"""A folder whose vectors lag behind its words, and the provider that they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from schemas.errors import EmbeddingError, EmbeddingRefused, EmbeddingUnavailable
from schemas.errors.models import Excess
from tests.integration.shelf import Numbers
from tests.integration.steps.site import FILES, Site
from worker.embed import Embedder, Vectors, WrappedEmbedder
from worker.embed.pace import EmbeddingPace
from worker.index.pipeline import claim_vectors, index_files, index_slice
from worker.index.run import IndexRun
from worker.state.index.tools import Index
from worker.upkeep import fsck
from worker.vectors import Leg

#: A trusted time of a file.
LONG_AGO = 1_000_000_000
AWAY = EmbeddingUnavailable("The provider does not answer.")
#: The files of the folder.
PATHS = {f"{number}.md" for number in range(FILES)}


class Provider(WrappedEmbedder):
    """A provider that may be `away`, refuses texts with "refused", and takes texts of at most `longest` characters."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.away: EmbeddingError | None = None
        self.longest = 1 << 20
        self.sent: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.away:
            raise self.away
        refused = [place for place, text in enumerate(texts) if "refused" in text]
        long = [place for place, text in enumerate(texts) if len(text) > self.longest]
        if refused:
            raise EmbeddingRefused("No.", indices=refused)
        if long:
            raise EmbeddingRefused("Too long.", indices=long, excess=Excess.LENGTH)
        self.sent += texts
        return self._embedder.embed(texts)


@dataclass
class Late:
    """A folder whose vectors are late: nothing is known of the provider's pace."""

    site: Site
    provider: Provider = field(init=False)

    def __post_init__(self) -> None:
        self.provider = Provider(Numbers(self.site.index.settings.embedder, max_inputs=32))

    @property
    def index(self) -> Index:
        return self.site.index

    def worker(self) -> IndexRun:
        return replace(self.site.worker(), embedder=self.provider, pace=EmbeddingPace())

    def words(self, run: IndexRun | None = None) -> None:
        """Write the words of all that was listed."""
        run = run or self.worker()
        while claims := self.site.claim_words(run):
            index_files(run, claims)

    def vectors(self, run: IndexRun | None = None) -> None:
        """Write all vectors that are due."""
        run = run or self.worker()
        while claims := claim_vectors(run, self.site.task):
            index_files(run, claims)

    def slice(self, run: IndexRun | None = None) -> None:
        for _ in index_slice(run or self.worker(), self.site.task, 60):
            pass

    def again(self) -> None:
        """Start and list the next run, as a worker does."""
        self.site.again()
        store = self.site.resources.store_of(self.index)
        fsck.mark_lost_before_listing(self.site.pool, store, self.index, self.site.task)

    def columns(self, names: str, path: str | None = None) -> list[tuple[Any, ...]]:
        query = f"SELECT {names} FROM search_index_file WHERE index_id = %s AND coalesce(path = %s, true) ORDER BY path"
        return list(self.site.do(query, self.index.id, path))

    def by_word(self, word: str) -> set[str]:
        """The paths of live chunks whose words the store finds."""
        return self._paths(Leg(1000, keywords=word))

    def with_vector(self) -> set[str]:
        """The paths of live chunks whose vectors the store finds."""
        vector = self.provider._embedder.embed(["anything"])[0]
        return self._paths(Leg(1000, vector=vector))

    def _paths(self, leg: Leg) -> set[str]:
        store = self.site.resources.store_of(self.index)
        (found,) = store.search(self.index.namespace, [leg])
        query = (
            "SELECT f.path FROM chunk c JOIN search_index_file f ON f.id = c.file_id WHERE c.live AND c.id = ANY (%s)"
        )
        return {path for (path,) in self.site.do(query, [UUID(id_) for id_ in found.ids])}

    def count(self) -> tuple[Any, ...]:
        """What the task's row counts: files, those with words, indexed ones, chunks, those with vectors."""
        self.site.do("UPDATE search_index_task SET counted_at = NULL WHERE id = %s", self.site.task)
        self.site.refresh()
        names = "total_files, searchable_files, indexed_files, total_chunks, vector_chunks"
        return tuple(self.site.do(f"SELECT {names} FROM search_index_task WHERE id = %s", self.site.task)[0])

    def end(self) -> None:
        """Finish the run without faults. Nothing is left behind."""
        self.provider.away = None
        self.words()
        self.vectors()
        assert self.site.refresh()
        self.prove()

    def prove(self) -> None:
        """Each live chunk has its row, its vector and its words; the counts are right, and nothing is paid twice.

        A file that vanished since it was listed fails, and keeps what it had.
        """
        site = self.site
        site.prove()
        store = site.resources.store_of(self.index)
        of_file = (
            "FROM chunk c JOIN search_index_file f ON f.id = c.file_id WHERE c.index_id = %s AND f.status = 'indexed'"
        )
        live = {id_ for (id_,) in site.do(f"SELECT c.id {of_file} AND c.live", self.index.id)}
        assert set(store.vectors(self.index.namespace, [*live])) == live
        assert site.do(f"SELECT count(*) {of_file} AND (c.lost OR NOT c.live)", self.index.id) == [(0,)]
        assert {row[1:] for row in self.columns("status, vectors_due, lost, awaits_vectors") if row[0] != "failed"} <= {
            (0, False, False)
        }
        assert not fsck.inspect(site.pool, store, self.index).drift
        assert len(self.provider.sent) == len({*self.provider.sent})
