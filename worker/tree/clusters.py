"""Decides which texts of a level are summarised together."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingDependency, TreeError
from schemas.summary_tree import ClusterMethod
from worker.machine.scratch import Scratch
from worker.tree import adjacent

Vectors = NDArray[np.float32]

#: A layer is clustered from scratch once more than one in this many of its items changed since the last time.
REFIT_DIVISOR = 5
#: Seconds between two checks whether the clusters are still wanted.
CHECK_SECONDS = 0.25
#: Modules of the extra `raptor`.
LIBRARIES = ("sklearn", "umap")


@dataclass(frozen=True, slots=True)
class ClusterItem:
    """A text or a summary. `member` stays the same when a summary's text changes; `key` does not."""

    key: str
    member: str
    path: str


@dataclass(frozen=True, slots=True)
class KeptCluster:
    """A cluster of the current tree, by the `member` of its items."""

    slot: int
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Clusters:
    """Slots with indices of items. `fit`: items when the layer was last clustered from scratch, and changes since."""

    members: Sequence[tuple[int, Sequence[int]]]
    fit: list[int]


def needs_libraries(method: ClusterMethod) -> bool:
    """Return whether a method needs the extra `raptor`."""
    return method != "adjacent"


def has_libraries() -> bool:
    """Return whether the extra `raptor` is installed here."""
    return all(importlib.util.find_spec(name) is not None for name in LIBRARIES)


def by_neighbours(items: Sequence[ClusterItem], similarities: Sequence[float], min_size: int) -> Clusters:
    """Return clusters of consecutive items."""
    gap = adjacent.gaps([item.path for item in items], similarities)
    runs = adjacent.neighbours(gap, min_size)
    return Clusters([(slot, run) for slot, run in enumerate(runs)], [len(items), 0])


def by_fit(
    items: Sequence[ClusterItem],
    vectors: Vectors,
    *,
    method: ClusterMethod,
    min_size: int,
    first_slot: int,
    check: Callable[[], None],
) -> Clusters | None:
    """Cluster from scratch, with slots from `first_slot` on. None if there are too few items."""
    found = _fit(vectors, method, min_size, check)
    if not found:
        return None
    return Clusters([(first_slot + n, members) for n, members in enumerate(found)], [len(items), 0])


def by_kept(
    items: Sequence[ClusterItem], vectors: Vectors, kept: Sequence[KeptCluster], fit: Sequence[int]
) -> Clusters | None:
    """Return the clusters of the current tree, with new items in the nearest one. None once too many items changed."""
    places = {item.member: index for index, item in enumerate(items)}
    known = {member for cluster in kept for member in cluster.members}
    new = [index for member, index in places.items() if member not in known]
    fitted, changed = fit[0], fit[1] + max(len(new), len(known - places.keys()))
    members = {c.slot: [places[m] for m in c.members if m in places] for c in kept}
    members = {slot: sorted(indices) for slot, indices in members.items() if indices}
    if changed * REFIT_DIVISOR > fitted or not members:
        return None
    centres = np.stack([vectors[indices].mean(axis=0) for indices in members.values()])
    slots = list(members)
    for index in new:
        nearest = slots[int(np.argmax(centres @ vectors[index] / np.linalg.norm(centres, axis=1).clip(1e-9)))]
        members[nearest].append(index)
    return Clusters([(slot, sorted(indices)) for slot, indices in members.items()], [fitted, changed])


def _fit(vectors: Vectors, method: ClusterMethod, min_size: int, check: Callable[[], None]) -> list[list[int]] | None:
    """Run `worker.tree.fit` in a process of its own, and end it when `check` raises."""
    if not has_libraries():
        raise MissingDependency(
            f"cluster_method {method} needs scikit-learn and umap-learn on the workers; "
            "install foldex[raptor], or set cluster_method to adjacent."
        )
    with Scratch() as directory:
        np.save(directory / "vectors.npy", vectors)
        (directory / "task.json").write_text(json.dumps({"method": method, "min_size": min_size}))
        _wait(_start(directory), check)
        answer: list[list[int]] | None = json.loads((directory / "clusters.json").read_text())
    return answer


def _start(directory: Path) -> subprocess.Popen[bytes]:
    # one thread: sums of several threads would differ from run to run
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    env = {**os.environ, **threads}
    command = [sys.executable, "-m", "worker.tree.fit", str(directory)]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def _wait(process: subprocess.Popen[bytes], check: Callable[[], None]) -> None:
    with process:
        try:
            while True:
                check()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(CHECK_SECONDS)
                    break
        except BaseException:  # whatever ends the wait, leaving the block would wait for the process
            process.kill()
            raise
        said = process.stderr.read().decode(errors="replace") if process.stderr else ""
    if process.returncode:
        last = said.strip().rpartition("\n")[2][:200] or f"exit status {process.returncode}"
        raise TreeError(f"The clusters could not be computed ({last}); set cluster_method to adjacent.")
