"""A process that freezes in either step, and wakes up after others have done its work and more, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

import pytest

from schemas.errors import FoldexError
from tests.integration.shelf import AroundStore, Write
from tests.integration.steps.lagging import PATHS, Late, Provider
from tests.integration.steps.site import write
from worker.embed import Embedder, Vectors
from worker.index.pipeline import claim_vectors, index_files
from worker.index.run import IndexRun

#: Where the process freezes. The step of words asks nobody.
POINTS, ANSWER = ("before the write", "after the write"), "the answer"
STEPS = "words", "vectors", "both"


@dataclass
class Freezing(AroundStore):
    """A store in whose first write the process freezes: before the store has it, or after."""

    freeze: Callable[[], None]
    after: bool
    is_awake: bool = False

    def take(self, write: Write) -> None:
        if self.after:
            self.store.write(*write)
        if not self.is_awake:
            self.is_awake = True
            self.freeze()
        if not self.after:
            self.store.write(*write)


class FreezingProvider(Provider):
    """A provider whose first answer finds the process frozen. Others pay for these texts again."""

    def __init__(self, embedder: Embedder, freeze: Callable[[], None]) -> None:
        super().__init__(embedder)
        self._freeze, self._is_awake = freeze, False

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = self._embedder.embed(texts)
        if not self._is_awake:
            self._is_awake = True
            self._freeze()
        return vectors


@dataclass
class Others:
    """What other workers do with a folder while one is frozen."""

    late: Late
    edits: bool

    def work(self, frozen: IndexRun) -> None:
        """Finish all, and if so asked, edit a file and finish that."""
        late = self.late
        late.site.expire(frozen)
        late.words()
        late.vectors()
        if not self.edits:
            return
        assert late.site.refresh()
        write(late.site.folder, 0, "Now about pears.")
        (late.site.folder / "1.md").unlink()
        late.again()
        late.words()
        late.vectors()


@pytest.mark.parametrize("edits", [False, True])
@pytest.mark.parametrize(("step", "point"), [*product(STEPS, POINTS), ("vectors", ANSWER), ("both", ANSWER)])
def test_a_process_that_wakes_up_after_others_finished_changes_nothing(
    late: Late, step: str, point: str, edits: bool
) -> None:
    if step == "vectors":
        late.words()
    others = Others(late, edits)
    run = late.worker()
    if step == "both":
        run.pace.note_answer(1_000_000, 0.001, first=0.001)
    claims = claim_vectors(run, late.site.task) if step == "vectors" else late.site.claim_words(run)
    assert claims
    if point == ANSWER:
        run = replace(run, embedder=FreezingProvider(late.provider._embedder, lambda: others.work(run)))
    else:
        frozen = Freezing(run.store, lambda: others.work(run), after=point == POINTS[1])
        run = replace(run, store=frozen)
    with suppress(FoldexError):
        index_files(run, claims)
    pears = {"0.md"} if edits else set()
    assert late.by_word("pears") == pears
    assert late.with_vector() == PATHS - ({"1.md"} if edits else set())
    late.end()
