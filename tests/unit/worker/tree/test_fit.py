"""Clusters by Gaussian mixtures and k-means, on both sides of the number of texts from which UMAP is used."""

from __future__ import annotations

import numpy as np
import pytest

from worker.tree.fit import UMAP_FROM, Points, clusters

pytest.importorskip("sklearn", reason="install foldex[raptor] to run")
pytest.importorskip("umap", reason="install foldex[raptor] to run")

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
