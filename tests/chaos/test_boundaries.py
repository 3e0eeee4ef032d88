"""`kill -9` at every border between two stages of the work: of a single pool child, and of both workers at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chaos import corpus
from tests.chaos.cluster import WORKERS, Cluster, client_of
from tests.chaos.full import IS_FULL, only_in_full
from tests.chaos.proof import Case, Result, case, prove
from tests.fakes.hold import Hold

#: Just before the commit of a page, a listing's end, its first counts, claims, chunk rows, outcomes, and a task's end.
GATES = ("plan-page", "plan-end", "plan-done", "claim", "chunk-rows", "finish", "close")
#: Before a request is applied, or after that but before its answer. The previous stage is already committed.
REQUESTS = {
    "embed-before": ("embeddings", False),
    "embed-after": ("embeddings", True),
    "upsert-before": ("upsert", False),
    "upsert-after": ("upsert", True),
    "delete-before": ("delete", False),
    "delete-after": ("delete", True),
}
POINTS = (*GATES, *REQUESTS)
#: Stages that occur only if a folder changed.
EDITS = {"delete-before", "delete-after"}
#: Borders that are reached together, so that one kill serves all of them.
WAVES = (
    ("plan-page", "plan-end", "claim", "embed-after", "upsert-before", "finish", "delete-after"),
    ("plan-done", "embed-before", "chunk-rows", "upsert-after", "close", "delete-before"),
)


@dataclass
class Border:
    """A case that is stopped at one point."""

    point: str
    case: Case
    hold: Hold | None = None

    def arm(self) -> None:
        here = self.case.here
        if self.point not in REQUESTS:
            here.gates.close(self.point, self.case.project)
            return
        kind, after = REQUESTS[self.point]
        if kind == "embeddings":
            self.hold = here.embeddings.holds.add(kind, self.case.mark, after=after)
        else:
            self.hold = here.vectors.holds.add(kind, self.case.project, after=after)

    def met(self) -> set[int]:
        """Process ids of the processes that wait here."""
        here = self.case.here
        ports = self.hold.arrived if self.hold else here.gates.arrived(self.point, self.case.project)
        pids = set()
        for port in ports:
            with suppress(LookupError):
                pids.add(client_of(port, self.server()))
        return pids

    def server(self) -> str:
        """The URL of the server that holds their requests."""
        here = self.case.here
        if self.point not in REQUESTS:
            return here.gates.url
        return here.embeddings.url if REQUESTS[self.point][0] == "embeddings" else here.vectors.url

    def release(self) -> None:
        if self.hold:
            self.hold.release()
        else:
            self.case.here.gates.open(self.point, self.case.project)


def prepare(here: Cluster, root: Path, points: Iterable[str], lance: Iterable[str] = ()) -> list[Border]:
    """Create a case for each point. Cases that need an index to change are indexed and edited first."""
    borders = [Border(point, case(here, root, point, lance=point in lance)) for point in points]
    changed = [border for border in borders if border.point in EDITS]
    for border in changed:
        border.case.start()
    for border in changed:
        here.wait(border.case.tool)
        corpus.edit(border.case.folder, border.case.mark)
    for border in borders:
        border.arm()
        border.case.start()
    return borders


def meet(borders: list[Border], met: Callable[[Border, set[int]], None], seconds: float = 100) -> None:
    """Call `met` once for each border, as soon as a process waits there."""
    open_ = list(borders)
    deadline = time.monotonic() + seconds
    while open_:
        assert time.monotonic() < deadline, f"nobody came to {[b.point for b in open_]}\n{open_[0].case.here.logs()}"
        for border in list(open_):
            pids = border.met()
            if pids:
                open_.remove(border)
                met(border, pids)
        time.sleep(0.02)


@pytest.fixture(scope="module")
def children_killed(whole: Cluster, root: Path, calm: Result, calm_edited: Result) -> Iterator[dict[str, Case]]:
    """Kills the pool children that reach each point."""

    def kill(border: Border, pids: set[int]) -> None:
        for pid in pids:
            whole.kill_child(pid)
        border.release()

    # LanceDB runs inside the process, so there is no request to hold.
    borders = prepare(whole, root, POINTS, lance={"chunk-rows", "finish", "claim"})
    meet(borders, kill)
    yield {border.point: border.case for border in borders}
    whole.calm()


@pytest.fixture(scope="module")
def workers_killed(
    whole: Cluster, root: Path, calm: Result, calm_edited: Result, children_killed: object
) -> Iterator[dict[str, Case]]:
    """Kills all processes of both workers while one of them waits at each point."""
    cases: dict[str, Case] = {}
    for wave in WAVES if IS_FULL else WAVES[:1]:
        borders = prepare(whole, root, wave, lance={"finish", "chunk-rows"})
        meet(borders, lambda _border, _pids: None)
        killed = {name: whole.kill(name) for name in WORKERS}
        for border in borders:
            border.release()
        for name, pid in killed.items():
            whole.restarted(name, pid)
        cases |= {border.point: border.case for border in borders}
    yield cases
    whole.calm()


def test_every_point_is_in_a_wave() -> None:
    assert sorted(point for wave in WAVES for point in wave) == sorted(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_child_is_as_if_nothing_had_happened(
    children_killed: dict[str, Case], calm: Result, calm_edited: Result, point: str
) -> None:
    prove(children_killed[point], calm_edited if point in EDITS else calm)


@pytest.mark.parametrize("point", [*WAVES[0], *(pytest.param(point, marks=only_in_full) for point in WAVES[1])])
def test_killed_workers_are_as_if_nothing_had_happened(
    workers_killed: dict[str, Case], calm: Result, calm_edited: Result, point: str
) -> None:
    prove(workers_killed[point], calm_edited if point in EDITS else calm)
