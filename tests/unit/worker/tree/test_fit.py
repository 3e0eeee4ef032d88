"""Clusters by Gaussian mixtures and k-means, on both sides of the number of texts from which UMAP is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest

from schemas.errors import LeaseLost
from tests.service import eventually
from worker.tree import fit
from worker.tree.clusters import ClusterItem, by_fit, has_libraries
from worker.tree.fit import UMAP_FROM, Points, clusters, neighbours, reduce_dimensions

# found, not imported: every process of a test run collects all modules
pytestmark = pytest.mark.skipif(not has_libraries(), reason="install foldex[raptor] to run")

TOPICS = 3
DIMENSIONS = 64


def points(count: int, spread: float) -> Points:
    """Points around as many centers as there are topics, which take turns."""
    random = np.random.default_rng(1)
    centers = random.normal(size=(TOPICS, DIMENSIONS))
    noise = random.normal(scale=spread, size=(count, DIMENSIONS))
    return (centers[np.arange(count) % TOPICS] + noise).astype(np.float32)


@pytest.mark.parametrize("count", [UMAP_FROM, UMAP_FROM + 1])
@pytest.mark.parametrize("method", ["gmm", "kmeans"])
def test_each_cluster_is_of_one_topic(method: str, count: int) -> None:
    found = clusters(points(count, 0.1), method, 3)
    assert found is not None
    assert {member for cluster in found for member in cluster} == set(range(count))
    assert all(len({member % TOPICS for member in cluster}) == 1 for cluster in found)
    assert all(len(cluster) > 1 for cluster in found)


@pytest.mark.parametrize("count", [UMAP_FROM, UMAP_FROM + 1])
@pytest.mark.parametrize("method", ["gmm", "kmeans"])
def test_equal_points_give_equal_clusters(method: str, count: int) -> None:
    # without clear topics, each run would divide them in another way
    vague = points(count, 5.0)
    assert clusters(vague, method, 3) == clusters(vague, method, 3)


@pytest.mark.parametrize("at_once", [1, 7 * 40, 40 * 40])
def test_neighbours_are_the_nearest_of_all(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(fit, "COMPARED_AT_ONCE", at_once)
    vectors = points(40, 5.0)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    distances = 1 - unit @ unit.T
    np.fill_diagonal(distances, 0)
    found, apart = neighbours(vectors, 6)
    assert found.tolist() == np.argsort(distances, axis=1)[:, :6].tolist()
    assert np.allclose(apart, np.sort(distances, axis=1)[:, :6], atol=1e-5)


def test_a_vector_is_its_own_nearest_neighbour() -> None:
    copies = np.repeat(points(3, 0.1), 3, axis=0)
    copies[-1] = 0
    found, apart = neighbours(copies, 3)
    assert found[:, 0].tolist() == list(range(len(copies)))
    assert not apart[:, 0].any()
    assert np.isfinite(apart).all()


#: Clusters in a process of its own, as a worker does, more vectors than end within the test.
WORKER = """
import numpy
from worker.tree.clusters import _fit
_fit(numpy.random.default_rng(0).normal(size=(20_000, 64)).astype("f4"), "gmm", 3, lambda: None)
"""


def test_the_process_that_clusters_ends_with_its_worker_and_leaves_no_file(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER], env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        eventually(lambda: bool(psutil.Process(worker.pid).children()), 60)
        (clustering,) = psutil.Process(worker.pid).children()
        assert list(tmp_path.glob("*/vectors.npy"))
    finally:
        worker.kill()
        worker.wait()
    eventually(
        lambda: not clustering.is_running() and not list(tmp_path.iterdir()),
        60,
        lambda: f"{clustering} {list(tmp_path.rglob('*'))}",
    )


#: Its worker is dead at once. Reading and removing are slow, so that they meet.
ORPHAN = """
import json, os, sys, time
from pathlib import Path
from worker.tree import fit

def loads(text):
    time.sleep(0.2)
    return json.JSONDecoder().decode(text)

def rmtree(directory, **_):
    for file in directory.iterdir():
        file.unlink()
    time.sleep(0.4)
    directory.rmdir()

fit.json.loads, fit.shutil.rmtree = loads, rmtree
fit.main(Path(sys.argv[1]))
"""


def test_a_worker_that_dies_while_its_vectors_are_read_leaves_no_file(tmp_path: Path) -> None:
    directory = tmp_path / "task"
    directory.mkdir()
    np.save(directory / "vectors.npy", points(5_000, 5.0))
    (directory / "task.json").write_text(json.dumps({"method": "gmm", "min_size": 3}))
    command = [sys.executable, "-c", ORPHAN, str(directory)]
    subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert not directory.exists()


def test_clusters_that_nobody_wants_any_more_are_not_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started: list[psutil.Process] = []

    def check() -> None:
        started.extend(child for child in psutil.Process().children() if "worker.tree.fit" in child.cmdline())
        if started:
            raise LeaseLost("cancelled")

    vectors = points(5_000, 5.0)
    items = [ClusterItem(str(number), str(number), "") for number in range(len(vectors))]
    with pytest.raises(LeaseLost):
        by_fit(items, vectors, method="gmm", min_size=3, first_slot=0, check=check)
    assert started
    assert not any(process.is_running() for process in started)
    assert list(tmp_path.iterdir()) == []


class Umap:
    """Notes the neighbours that UMAP is given, and keeps the first dimensions: its own search takes long to compile."""

    given: ClassVar[list[object]] = []

    def __init__(self, **options: Any) -> None:
        self.given.append(options["precomputed_knn"][0])

    def fit_transform(self, vectors: Points) -> Points:
        return vectors[:, :DIMENSIONS]


@pytest.mark.parametrize(("count", "is_compared"), [(UMAP_FROM + 9, True), (UMAP_FROM + 10, False)])
def test_of_many_vectors_umap_estimates_the_neighbours(
    monkeypatch: pytest.MonkeyPatch, count: int, is_compared: bool
) -> None:
    monkeypatch.setattr(fit, "MAX_COMPARED", UMAP_FROM + 9)
    monkeypatch.setattr("umap.UMAP", Umap)
    assert reduce_dimensions(points(count, 0.1), by_umap=True) is not None
    assert (Umap.given.pop() is not None) == is_compared
