"""Workers that freeze or die while words are written, between the steps, and while vectors are written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.full import only_in_full
from tests.chaos.proof import INDEX, Case, Result, case, prove
from tests.chaos.test_boundaries import Border, meet
from tests.chaos.test_messages import in_hand
from tests.fakes.hold import Hold
from tests.service import TOOLS, checked, eventually
from worker.state.index.tasks import LEASE

#: Points of the step of words: before the store's write, and after it, before the rows' commit.
WORDS = {"draft", "words"}
#: Points that are reached together, each with whether its folder is in LanceDB. Some workers must be left.
#: `embed-before`: between the steps. `embed-after` and `upsert-before`: before the store's write of vectors.
WAVES: tuple[Mapping[str, bool], ...] = (
    {"words": True, "embed-before": False, "vectors": True, "upsert-before": False},
    {"draft": True, "vector-claim": False, "embed-after": True, "upsert-after": False},
    {"words": False, "embed-before": True, "vectors": False, "draft": False},
    {"vector-claim": True, "embed-after": False},
)
WITHOUT_WORDS = f"""
SELECT 1 FROM search_index_file WHERE index_id = {INDEX} AND status IN ('pending', 'indexing') AND NOT awaits_vectors
UNION ALL SELECT 1 FROM search_index_task WHERE index_id = {INDEX} AND listing
"""


def has_words(made: Case) -> bool:
    """Whether the words of all files are there."""
    return not made.here.rows(WITHOUT_WORDS, made.tool, made.tool)


def prove_words(made: Case, expected: Result) -> None:
    """A search by words finds what it finds in a complete index."""
    client = made.here.lance if made.lance else made.here.client
    body = {"query": "birds", "mode": "keyword", "top_k": 1000}
    hits = checked(client.post(f"{TOOLS}/{made.tool}/query", json=body), 200)["results"]
    assert {(hit["file_path"], hit["chunk_index"]) for hit in hits} == {
        (path, place) for path, place, text in expected.chunks if "bird" in text.lower()
    }


@dataclass
class Hurt:
    """The cases of a wave, and the processes that were frozen or killed."""

    here: Cluster
    signal: Signals
    borders: list[Border]
    late: dict[str, Hold] = field(default_factory=dict)
    pids: set[int] = field(default_factory=set)

    def reach(self) -> None:
        """Bring each case to its point, and hurt who is there: nobody waits longer than a lock may take."""
        self.late = {b.point: self.here.embeddings.holds.add("embeddings", b.case.mark) for b in self.borders}
        for border in sorted(self.borders, key=lambda border: border.point in WORDS):
            if border.point in WORDS:
                border.arm()
            border.case.start()
            if border.point in WORDS:
                meet([border], self.hurt)
        for border in self.borders:
            if border.point not in WORDS:
                eventually(lambda made=border.case: has_words(made), 60, self.here.logs)  # type: ignore[misc] # mypy infers no default's type
                self._go_on(border)
                meet([border], self.hurt)

    def _go_on(self, border: Border) -> None:
        late = self.late[border.point]
        if border.point == "embed-before":
            border.hold = late
            return
        border.arm()
        if border.point == "vector-claim":
            self.here.ask(border.case.tool, "cancel")
            border.case.start()
        late.release()

    def hurt(self, border: Border, pids: set[int]) -> None:
        """Freeze or kill the processes at a point, then let the servers go on."""
        for pid in pids - self.pids:
            os.kill(pid, self.signal)
        self.pids |= pids
        border.release()
        self.late[border.point].release()

    def wake(self) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, SIGCONT)


@pytest.fixture(
    params=[(signal, wave) for signal in (SIGSTOP, SIGKILL) for wave in WAVES],
    ids=lambda given: f"{given[0].name}-{'-'.join(given[1])}",
)
def hurt(request: pytest.FixtureRequest, here: Cluster, root: Path, calm: Result) -> Iterator[Hurt]:
    signal, wave = request.param
    borders = [Border(point, case(here, root, point, lance=lance)) for point, lance in wave.items()]
    made = Hurt(here, signal, borders)
    try:
        made.reach()
        yield made
    finally:
        made.wake()


@only_in_full
def test_a_process_that_is_hurt_in_either_step_changes_nothing(hurt: Hurt, calm: Result) -> None:
    here, since = hurt.here, time.monotonic()
    cases = {border.point: border.case for border in hurt.borders}
    for point, made in cases.items():
        if point not in WORDS:
            prove_words(made, calm)
    for made in cases.values():
        prove(made, calm)
    if hurt.signal is SIGKILL:
        return
    time.sleep(max(0.0, since + 1.5 * LEASE.total_seconds() - time.monotonic()))
    ended = [here.task(made.tool)[0] for made in cases.values()]
    hurt.wake()
    for task in ended:
        eventually(lambda task=task: not in_hand(here, task), 30, here.logs)  # type: ignore[misc] # mypy infers no default's type
    for made in cases.values():
        prove(made, calm)
