"""Builds a tree in short steps. The rows hold the result of each step, so another worker can continue a killed one.

    leaves → (cluster → summarise → embed) for each layer → publish

The previous tree answers until the new one is published.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any
from uuid import uuid4

import numpy as np
import structlog
from psycopg import Connection

from schemas.content.document import text_hash
from schemas.errors import LlmFailed, SliceOver, TooManyLeaves
from schemas.ids import ordered_id
from schemas.wording import amount
from worker.state.tree import build_rows, trees
from worker.state.tree.build_rows import OpenCluster, PlannedCluster
from worker.tree import clusters, vectors
from worker.tree.build_cost import cost_above
from worker.tree.clusters import ClusterItem, Clusters, KeptCluster
from worker.tree.run import TreeRun
from worker.tree.summaries import SummaryResult, key_of

#: Clusters whose summaries are looked up at a time.
PAGE = 200
#: Estimated summaries of all further layers, as a share of a layer's own.
HIGHER_SHARE = 0.25

#: Number of clusters in a row that may fail for the same reason before the build ends.
MAX_FAILURES = 3
#: Reasons that are not the model's fault: the texts are gone, or contain no words.
HARMLESS = {"vanished", "no_words"}
#: Minimum seconds of a slice, even if other work waits. A slice of indexing takes four times as long.
MIN_SECONDS = 5.0

log = structlog.get_logger()

#: The result of a step: the next stage and its level; None once the tree is published.
Next = tuple[str, int] | None


class SliceTime:
    """The end of a slice: after its time, or after a moment if other work waits."""

    def __init__(self, run: TreeRun, seconds: float) -> None:
        self._yields = run.yields
        self._least = time.monotonic() + MIN_SECONDS
        self._most = time.monotonic() + seconds

    def is_over(self) -> bool:
        """Return whether to let the next slice continue."""
        now = time.monotonic()
        return now > self._most or (now > self._least and self._yields())


def build_slice(run: TreeRun, seconds: float) -> bool:
    """Build until the time is up or other work waits. Returns whether the tree is complete."""
    clock = SliceTime(run, seconds)
    stage, level = run.build.stage, run.build.level
    steps: dict[str, Callable[[TreeRun, int, SliceTime], Next]] = {
        "leaves": _leaves,
        "cluster": _cluster,
        "summarise": _summarise,
        "embed": _embed,
        "publish": _publish,
    }
    while True:
        run.lease.check()
        try:
            following = steps[stage](run, level, clock)
        except SliceOver:
            return False
        if following is None:
            return True
        stage, level = following
        if clock.is_over():
            return False


def _leaves(run: TreeRun, _level: int, _clock: SliceTime) -> Next:
    """Fix the leaves. If none changed, the current tree is already complete."""
    build = run.build
    with run.pool.connection() as connection:
        trees.hold(connection, build)
        trees.note_index_task(connection, build)
        count, changed = build_rows.capture_leaves(connection, build)
        if build.is_current and not changed:
            log.info("the folder's texts did not change", leaves=count)
            trees.complete(connection, build, changed=False)
            return None
        build_rows.start_nodes(connection, build)
        _check_leaves(run, count)
        log.info("tree begun", leaves=count, changed=changed, method=build.config.cluster_method)
        return _advance(run, connection, "cluster", 1)


def _check_leaves(run: TreeRun, count: int) -> None:
    config = run.build.config
    if clusters.needs_libraries(config.cluster_method) and count > config.max_leaves:
        raise TooManyLeaves(
            f"The folder has {amount(count, 'text')}, and {config.cluster_method} clusters at most "
            f"{config.max_leaves:,}; set cluster_method to adjacent, or raise max_leaves."
        )


def _cluster(run: TreeRun, level: int, _clock: SliceTime) -> Next:
    """Decide the clusters of a layer, or that the tree ends below it."""
    build = run.build
    found, items, reason = _clusters(run, level)
    run.lease.check()
    with run.pool.connection() as connection:
        trees.hold(connection, build)
        if found is None:
            log.info("the tree ends", reason=reason, level=level, items=len(items))
            return _advance(run, connection, "publish", level)
        planned = _planned(run, items, found)
        log.info("layer clustered", level=level, items=len(items), clusters=len(planned))
        build_rows.plan(connection, build, level, planned)
        trees.note_fits(connection, build, level, found.fit)
        if level == 1:
            unpaid, tokens = build_rows.count_unpaid(connection, build)
            whole = cost_above(build.config, clusters=len(planned), unpaid=unpaid, tokens=tokens)
            run.summariser.afford(whole.tokens)
        missing = build_rows.count_unsummarised(connection, build, level)
        expected = missing + (round(missing * HIGHER_SHARE) if level < build.config.max_layers else 0)
        return _advance(run, connection, "summarise", level, expected)


def _planned(run: TreeRun, items: Sequence[ClusterItem], found: Clusters) -> list[PlannedCluster]:
    """Return one row per cluster; equal clusters share a row."""
    by_key: dict[str, PlannedCluster] = {}
    for slot, indices in found.members:
        children = [items[index].key for index in indices]
        key = key_of(run.summariser, children)
        by_key.setdefault(key, PlannedCluster(ordered_id(key.encode(), uuid4().int), slot, key, children))
    return list(by_key.values())


def _clusters(run: TreeRun, level: int) -> tuple[Clusters | None, Sequence[ClusterItem], str]:
    """Return the clusters of a layer with their items, or None and the reason why the tree ends."""
    config, least = run.build.config, run.build.config.min_cluster_size
    items, batches = _items(run, level)
    if level > config.max_layers:
        return None, items, "max_layers"
    if len(items) < least:
        return None, items, "fewer items than min_cluster_size"
    if config.cluster_method == "adjacent":
        kept, similarities = _neighbours(batches)
        found: Clusters | None = clusters.by_neighbours(kept, similarities, least)
    else:
        kept, matrix = _whole(batches)
        found = _fit(run, level, kept, matrix)
    if found is None:
        return None, kept, "the dimensions of so few items cannot be reduced"
    if len(found.members) >= len(kept):
        return None, kept, "the layer would not shrink"
    return found, kept, ""


def _fit(run: TreeRun, level: int, items: Sequence[ClusterItem], matrix: clusters.Vectors) -> Clusters | None:
    build, config = run.build, run.build.config
    slots = build_rows.slots(run.pool, build, level)
    fit = build.fits.get(str(level))
    if fit and not build.is_full and (kept := _read_kept(run, level)):
        found = clusters.by_kept(items, matrix, kept, fit)
        if found is not None:
            return found
    return clusters.by_fit(
        items,
        matrix,
        method=config.cluster_method,
        min_size=config.min_cluster_size,
        first_slot=max(slots.values(), default=-1) + 1,
        check=run.lease.check,
    )


def _read_kept(run: TreeRun, level: int) -> list[KeptCluster]:
    """Return the clusters of the current tree."""
    below = build_rows.slots(run.pool, run.build, level - 1)
    rows = build_rows.read_kept_clusters(run.pool, run.build, level)
    return [KeptCluster(slot, frozenset(str(below.get(child, child)) for child in children)) for slot, children in rows]


Batches = Iterator[tuple[list[ClusterItem], clusters.Vectors]]


def _items(run: TreeRun, level: int) -> tuple[list[ClusterItem], Batches]:
    """Return the items of a layer to summarise, in the folder's order, and the same in batches with vectors."""
    leaves = build_rows.leaves(run.pool, run.build)
    if level == 1:
        items = [ClusterItem(leaf.hash, leaf.hash, leaf.path) for leaf in leaves]
        by_key = {item.key: item for item in items}
        with_vectors = vectors.of_leaves(run, leaves)
        return items, (([by_key[leaf.hash] for leaf in batch], matrix) for batch, matrix in with_vectors)
    first = build_rows.first_leaves(run.pool, run.build, level - 1)
    order = {leaf.hash: (place, leaf.path) for place, leaf in enumerate(leaves)}
    below = build_rows.nodes(run.pool, run.build, level - 1)
    found = {node.key: [order[hash_] for hash_ in first.get(node.key, ()) if hash_ in order] for node in below}
    places = {key: min(leaf_places, default=(0, "")) for key, leaf_places in found.items()}
    below.sort(key=lambda node: (places[node.key], node.key))
    items = [ClusterItem(node.key, str(node.slot), places[node.key][1]) for node in below]

    def batches() -> Batches:
        kept, matrix = vectors.of_nodes(run, below)
        by_key = {item.key: item for item in items}
        yield [by_key[node.key] for node in kept], matrix

    return items, batches()


def _neighbours(batches: Batches) -> tuple[list[ClusterItem], list[float]]:
    """Return all items, and the cosine of each with the next one. Holds the vectors of one batch."""
    items: list[ClusterItem] = []
    similarities: list[float] = []
    last: clusters.Vectors | None = None
    for batch, matrix in batches:
        joined = matrix if last is None else np.concatenate([last, matrix])
        similarities += np.einsum("ij,ij->i", joined[:-1], joined[1:]).tolist()
        items += batch
        last = joined[-1:] if len(joined) else None
    return items, similarities


def _whole(batches: Batches) -> tuple[list[ClusterItem], clusters.Vectors]:
    found = list(batches)
    items = [item for batch, _ in found for item in batch]
    matrices = [matrix for _, matrix in found]
    return items, np.concatenate(matrices) if matrices else np.zeros((0, 1), dtype=np.float32)


def _summarise(run: TreeRun, level: int, clock: SliceTime) -> Next:
    """Summarise the clusters of a layer, and store each summary as it arrives."""
    while waiting := build_rows.list_unsummarised(run.pool, run.build, level, PAGE):
        _summarise_some(run, level, waiting, clock)
    return _commit_advance(run, "embed", level)


def _summarise_some(run: TreeRun, level: int, waiting: Sequence[OpenCluster], clock: SliceTime) -> None:
    """Run as many requests as the model allows; start none after the deadline. Raises `SliceOver`."""
    queue = iter(waiting)
    with ThreadPoolExecutor(run.summariser.concurrency, thread_name_prefix="summarise") as pool:
        making: dict[Future[None], OpenCluster] = {}
        is_over = False
        while True:
            while not is_over and len(making) < run.summariser.concurrency and (cluster := next(queue, None)):
                making[pool.submit(_one, run, level, cluster)] = cluster
            if not making:
                break
            done, _ = wait(making, return_when=FIRST_COMPLETED)
            for future in done:
                del making[future]
                future.result()
            is_over = is_over or clock.is_over()
    if is_over:
        raise SliceOver


def _one(run: TreeRun, level: int, cluster: OpenCluster) -> None:
    """Summarise one cluster, unless the project has paid for that already."""
    run.lease.check()
    text = build_rows.find_summary(run.pool, run.build, cluster.key)
    summary = SummaryResult(text)
    if text is None:
        texts = build_rows.texts(run.pool, run.build, level, cluster.children)
        found = [texts[child] for child in cluster.children if child in texts]
        # the texts of an edit during the build are gone; the next build makes this summary again
        distinct = list(dict.fromkeys(found))
        summary = run.summariser.summarise(distinct, run.lease.check) if found else SummaryResult(None, "vanished")
        if summary.text is not None and len(found) == len(cluster.children):
            build_rows.cache(run.pool, run.build, cluster.key, summary.text)
    hash_ = text_hash(summary.text) if summary.text is not None else None
    failures = build_rows.keep(run.pool, run.build, cluster.id, summary.text, hash_, summary.skip_reason)
    if failures >= MAX_FAILURES and summary.skip_reason not in HARMLESS:
        raise LlmFailed(
            f"{amount(failures, 'cluster')} in a row could not be summarised ({summary.skip_reason}); check the model "
            "and summary_prompt, then build again."
        )


def _embed(run: TreeRun, level: int, clock: SliceTime) -> Next:
    """Embed the summaries of a layer and write them to the store."""
    while texts := build_rows.list_unstored(run.pool, run.build, level, vectors.BATCH):
        vectors.write(run, level, texts)
        if clock.is_over():
            raise SliceOver
    return _commit_advance(run, "cluster", level + 1)


def _publish(run: TreeRun, _level: int, _clock: SliceTime) -> Next:
    """Make the tree the current one."""
    run.lease.check()
    build_rows.publish(run.pool, run.build)
    log.info("tree complete")
    return None


def _commit_advance(run: TreeRun, stage: str, level: int) -> Next:
    with run.pool.connection() as connection:
        trees.hold(connection, run.build)
        return _advance(run, connection, stage, level)


def _advance(run: TreeRun, connection: Connection[Any], stage: str, level: int, expected: int = 0) -> Next:
    trees.advance(connection, run.build, stage, level, expected)
    return stage, level
