"""Clusters by Gaussian mixtures or k-means: the only module that imports scikit-learn and UMAP.

It runs in a process of its own (`python -m worker.tree.fit DIRECTORY`), which a cancel ends at once. Compiling UMAP
takes seconds, and memory that no worker should keep. The directory holds `vectors.npy` and `task.json`; `clusters.json`
is the answer. Every seed is fixed, so the same vectors give the same clusters.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
#: Divides points into clusters: indices of the members of each. A point may be in several.
Divide = Callable[[Points, list[int]], list[list[int]]]

SEED = 0
#: For mixtures of more nodes, UMAP reduces the dimensions. For fewer nodes, and for k-means, PCA does.
UMAP_FROM = 50
#: Dimensions after the reduction.
DIMENSIONS = 10
#: Number of neighbours that UMAP considers.
NEIGHBOURS = 15
#: Among at most this many nodes, neighbours are found by comparing all pairs. Among more, UMAP estimates them.
MAX_COMPARED = 50_000
#: Distances that are computed at a time: 8 MB.
COMPARED_AT_ONCE = 2_000_000
#: Numbers of clusters that are compared.
TRIALS = 10
#: Points that are divided into final clusters at once. More are divided into parts first, as in the paper.
MAX_POINTS = 400
#: Maximum parts.
MAX_PARTS = 50
#: A text belongs to each cluster of at least this probability, as in the paper.
THRESHOLD = 0.1
#: Points of the sample that a silhouette is estimated from.
MAX_SILHOUETTE = 2000
#: Number of starts of k-means, of which the best counts.
STARTS = 3


def clusters(vectors: Points, method: str, min_size: int) -> list[list[int]] | None:
    """Return clusters of at least two of the vectors, by index; None if the dimensions cannot be reduced."""
    divide = _by_mixture if method == "gmm" else _by_means
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        points = reduce_dimensions(vectors, by_umap=method == "gmm" and len(vectors) > UMAP_FROM)
        if points is None:
            return None
        found = [members for part in _parts(points, divide) for members in _within(points, part, divide, min_size)]
    return _without_single(points, found)


def reduce_dimensions(vectors: Points, *, by_umap: bool) -> Points | None:
    """Return the vectors in few dimensions; None if that fails."""
    count, dimensions = vectors.shape
    try:
        if by_umap:
            from umap import UMAP

            near = min(NEIGHBOURS, count - 1)
            # UMAP's own search takes 250 MB and most of the time, above all to be compiled
            known = (*neighbours(vectors, near), None) if count <= MAX_COMPARED else (None, None, None)
            reducer = UMAP(
                n_components=DIMENSIONS,
                n_neighbors=near,
                min_dist=0.0,
                metric="cosine",
                random_state=SEED,
                n_jobs=1,
                precomputed_knn=known,
            )
        else:
            from sklearn.decomposition import PCA

            reducer = PCA(n_components=min(DIMENSIONS, count - 1, dimensions), random_state=SEED)
        points = np.asarray(reducer.fit_transform(vectors), dtype=np.float32)
    except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
        return None
    return points if np.isfinite(points).all() else None


def neighbours(vectors: Points, count: int) -> tuple[NDArray[np.int32], Points]:
    """Return for each vector the `count` nearest ones by cosine, itself first, and their distances."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths, lengths, 1)
    rows = max(1, COMPARED_AT_ONCE // len(unit))
    indices = np.empty((len(unit), count), dtype=np.int32)
    distances = np.empty((len(unit), count), dtype=np.float32)
    for start in range(0, len(unit), rows):
        block = slice(start, min(start + rows, len(unit)))
        distance = 1 - unit[block] @ unit.T
        # a copy must not precede the vector itself
        distance[np.arange(len(distance)), np.arange(block.start, block.stop)] = -1
        near = np.argpartition(distance, count - 1, axis=1)[:, :count]
        found = np.take_along_axis(distance, near, axis=1)
        order = np.argsort(found, axis=1, kind="stable")
        indices[block] = np.take_along_axis(near, order, axis=1)
        distances[block] = np.take_along_axis(found, order, axis=1).clip(0)
    return indices, distances


def _parts(points: Points, divide: Divide) -> list[list[int]]:
    """Return all points in parts of at most about `MAX_POINTS`."""
    parts, final = [list(range(len(points)))], []
    while parts:
        part = parts.pop()
        if len(part) <= MAX_POINTS:
            final.append(part)
            continue
        most = min(MAX_PARTS, len(part) // (MAX_POINTS // 4))
        divided = divide(points[part], _trials(2, most))
        if max(map(len, divided)) == len(part):
            divided = [list(range(start, len(part), 2)) for start in (0, 1)]
        parts += [[part[index] for index in members] for members in divided]
    return sorted(final)


def _within(points: Points, part: list[int], divide: Divide, min_size: int) -> list[list[int]]:
    if len(part) < 2 * min_size:
        return [part]
    return [[part[index] for index in members] for members in divide(points[part], _trials(1, len(part) // min_size))]


def _trials(least: int, most: int) -> list[int]:
    most = max(least, most)
    return sorted({round(value) for value in np.linspace(least, most, TRIALS)})


def _by_mixture(points: Points, trials: list[int]) -> list[list[int]]:
    """Fit the Gaussian mixture with the best BIC. A point belongs to each component that is likely enough."""
    from sklearn.mixture import GaussianMixture

    spread = float(points.var()) or 1.0

    def fitted(count: int) -> GaussianMixture:
        mixture = GaussianMixture(count, covariance_type="diag", random_state=SEED, reg_covar=1e-3 * spread)
        return mixture.fit(points.astype(np.float64))

    best = min(map(fitted, trials), key=lambda mixture: mixture.bic(points))
    likely = best.predict_proba(points)
    belongs = (likely > THRESHOLD) | (likely == likely.max(axis=1, keepdims=True))
    return [members for column in belongs.T if (members := np.flatnonzero(column).tolist())]


def _by_means(points: Points, trials: list[int]) -> list[list[int]]:
    """Fit the k-means with the best silhouette; one cluster if there is nothing to compare."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    best, best_score = np.zeros(len(points), dtype=int), 0.0
    for count in trials:
        if not 1 < count < len(points):
            continue
        labels = KMeans(count, n_init=STARTS, random_state=SEED).fit_predict(points)
        if not labels.any():
            continue
        sample = min(len(points), MAX_SILHOUETTE)
        score = float(silhouette_score(points, labels, sample_size=sample, random_state=SEED))
        if score > best_score:
            best, best_score = labels, score
    return [np.flatnonzero(best == label).tolist() for label in sorted(set(best.tolist()))]


def _without_single(points: Points, found: list[list[int]]) -> list[list[int]]:
    """Move the members of clusters of one to the nearest other cluster, and drop copies of another cluster."""
    distinct = list(dict.fromkeys(tuple(sorted(members)) for members in found))
    larger = [list(members) for members in distinct if len(members) > 1]
    placed = {index for members in larger for index in members}
    single = [members[0] for members in distinct if len(members) == 1 and members[0] not in placed]
    if not larger:
        return [sorted(single)] if len(single) > 1 else []
    centres = np.stack([points[members].mean(axis=0) for members in larger])
    for index in single:
        larger[int(np.argmin(((centres - points[index]) ** 2).sum(axis=1)))].append(index)
    return sorted(sorted(members) for members in larger)


def main(directory: Path) -> None:
    """Read the task from a directory and write the answer there."""
    # without the lock, a read or write that fails in a removed directory would end the process before it is gone
    in_use = threading.Lock()
    # the worker that started this process holds the other end, which closes when that worker dies
    threading.Thread(target=_end_with_parent, args=(directory, in_use), daemon=True).start()
    with in_use:
        task = json.loads((directory / "task.json").read_text())
        vectors = np.load(directory / "vectors.npy")
    found = clusters(vectors, task["method"], task["min_size"])
    answer = directory / "answer.tmp"
    with in_use:
        answer.write_text(json.dumps(found))
        answer.rename(directory / "clusters.json")


def _end_with_parent(directory: Path, in_use: threading.Lock) -> None:
    sys.stdin.read()
    # a killed worker removes nothing
    with in_use:
        shutil.rmtree(directory, ignore_errors=True)
        os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
