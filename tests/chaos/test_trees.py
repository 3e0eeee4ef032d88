"""Summary trees while processes die, sleep and restart: the tree is as without faults, and little is paid twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any

import psutil
import pytest

from tests.chaos import corpus
from tests.chaos.cluster import Cluster, client_of
from tests.chaos.proof import INDEX, Case
from tests.fakes.hold import Hold
from tests.service import TOOLS, checked, eventually
from worker.tree.clusters import has_libraries

Tree = list[tuple[int, str, str]]

#: Requests in flight.
IN_FLIGHT = 2
NODES = f"""
SELECT n.level, n.key, n.text FROM tree_node n JOIN summary_tree t ON t.id = n.tree_id
WHERE t.index_id = {INDEX} AND n.live ORDER BY 1, 2
"""
#: Ids of the summaries that answer, and of vectors that are to be deleted.
LIVE = (
    f"SELECT n.id::text FROM tree_node n JOIN summary_tree t ON t.id = n.tree_id WHERE t.index_id = {INDEX} AND n.live"
)
DEAD = f"SELECT id::text FROM tree_tombstone WHERE index_id = {INDEX}"


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    """One folder for all cases: each has its own project, in which nothing is paid for yet."""
    return corpus.make(root / "forest", "forest")


def planted(here: Cluster, folder: Path, project: str, method: str = "adjacent") -> Case:
    """A case with a complete index, whose tree is being built."""
    made = Case(here, project, folder, "forest")
    here.wait(made.start())
    raptor = {"enabled": True, "cluster_method": method, "summary_num_workers": IN_FLIGHT}
    here.patch(made.tool, raptor=raptor)
    return made


def grown(made: Case, seconds: float = 90) -> Tree:
    """The tree, once its build ended by itself. The store has a vector for each summary and no other."""
    here, status = made.here, dict[str, Any]()

    def has_ended() -> bool:
        answer = here.client.get(f"{TOOLS}/{made.tool}/raptor/status")
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            return False  # Postgres was killed, and comes back
        status.update(checked(answer, 200))
        return status["indexing_status"] in {"indexed", "error", "cancelled"}

    eventually(has_ended, seconds, lambda: f"{status}\n{here.logs()}")
    assert status["indexing_status"] == "indexed", f"{status}\n{here.logs()}"
    ((namespace,),) = here.rows(f"SELECT namespace || '.tree' FROM search_index WHERE id = {INDEX}", made.tool)
    live, dead = ({id_ for (id_,) in here.rows(query, made.tool)} for query in (LIVE, DEAD))
    assert live <= here.vector_ids(namespace) <= live | dead
    return here.rows(NODES, made.tool)


@pytest.fixture(scope="module")
def calm_tree(whole: Cluster, folder: Path) -> Tree:
    """The tree of a run without faults."""
    whole.chat.reset()
    found = grown(planted(whole, folder, "calm-tree"))
    assert len(found) == whole.chat.requests > 3 * IN_FLIGHT
    return found


def held(here: Cluster, folder: Path, project: str) -> tuple[Case, Hold]:
    """A build in the middle of its first layer, which waits for an answer."""
    here.chat.reset()
    hold = here.chat.holds.add("chat", "in 12")
    made = planted(here, folder, project)
    eventually(lambda: bool(hold.arrived), 60, here.logs)
    return made, hold


def prove(made: Case, expected: Tree) -> None:
    """The tree is as without faults, and only what was in flight was asked for twice."""
    assert grown(made) == expected
    chat = made.here.chat
    assert len(set(chat.prompts)) == len(expected)
    assert chat.requests <= len(expected) + IN_FLIGHT


@pytest.mark.parametrize("victim", ["postgres", "redis", "beat"])
def test_a_server_is_killed_during_a_build(here: Cluster, folder: Path, calm_tree: Tree, victim: str) -> None:
    made, hold = held(here, folder, f"{victim}-killed-tree")
    here.restarted(victim, here.kill(victim))
    hold.release()
    prove(made, calm_tree)


def builder(here: Cluster, hold: Hold) -> int:
    """The process that waits for the held answer."""
    return client_of(hold.arrived[0], here.chat.url)


def taken_over(here: Cluster, hold: Hold, hurt: Callable[[int], None]) -> int:
    """Hurt the process that builds, and wait until another one asks in its place. Returns the first one's id."""
    victim = builder(here, hold)
    before = len(hold.arrived)
    hurt(victim)
    eventually(lambda: len(hold.arrived) > before, 60, here.logs)
    assert client_of(hold.arrived[-1], here.chat.url) != victim
    return victim


def test_a_worker_is_killed_during_a_build(here: Cluster, folder: Path, calm_tree: Tree) -> None:
    made, hold = held(here, folder, "killed-tree")
    taken_over(here, hold, lambda pid: os.kill(pid, SIGKILL))
    hold.release()
    prove(made, calm_tree)


def test_a_build_goes_on_while_its_worker_is_stopped(here: Cluster, folder: Path, calm_tree: Tree) -> None:
    made, hold = held(here, folder, "stopped-tree")
    stopped = taken_over(here, hold, lambda pid: os.kill(pid, SIGSTOP))
    try:
        hold.release()
        prove(made, calm_tree)
    finally:
        os.kill(stopped, SIGCONT)
    # the late answers change nothing
    prove(made, calm_tree)


def clustering(here: Cluster) -> list[psutil.Process]:
    """The processes that cluster."""
    found = []
    for pid in here.children("worker-bulk"):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process] if "worker.tree.fit" in process.cmdline() else []
    return found


@pytest.fixture(scope="module")
def calm_clusters(whole: Cluster, folder: Path) -> Tree:
    """The tree of clusters of a run without faults."""
    if not has_libraries():
        pytest.skip("install foldex[raptor] to run")
    whole.chat.reset()
    return grown(planted(whole, folder, "calm-clusters", "kmeans"))


def test_a_worker_is_killed_while_it_clusters(here: Cluster, folder: Path, calm_clusters: Tree) -> None:
    here.chat.reset()
    made = planted(here, folder, "killed-clusters", "kmeans")
    eventually(lambda: bool(clustering(here)), 60, here.logs)
    (first,) = clustering(here)
    os.kill(first.ppid(), SIGKILL)
    prove(made, calm_clusters)
    eventually(lambda: not clustering(here), 30, here.logs)


def test_a_worker_is_stopped_while_it_clusters(here: Cluster, folder: Path, calm_clusters: Tree) -> None:
    here.chat.reset()
    made = planted(here, folder, "stopped-clusters", "kmeans")
    eventually(lambda: bool(clustering(here)), 60, here.logs)
    stopped = clustering(here)[0].ppid()
    os.kill(stopped, SIGSTOP)
    try:
        prove(made, calm_clusters)
    finally:
        os.kill(stopped, SIGCONT)
    prove(made, calm_clusters)
