"""`foldex fsck`: compares the vector store with the rows, and repairs differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from uuid import UUID

from api.cli.terminal.output import noun
from schemas.errors import LeaseLost, NotFound, StoreError
from worker.resources import Resources
from worker.state.index import drift, tools
from worker.state.index.tools import TREE, Index
from worker.upkeep import fsck, tree_fsck
from worker.upkeep.fsck import IndexReport, RepairResult

#: A phrase for each kind of drift.
PHRASES = {
    "missing": "chunks without a vector",
    "stray": "vectors without a chunk",
    "misplaced": "vectors with wrong attributes",
    "miscounted": "files with a wrong number of chunks",
    "bare": "indexed files without chunks",
    "unfinished": "chunks that never became live",
    "overdue": "deletes overdue",
}


def run(resources: Resources, tool_id: UUID | None, *, repair: bool, say: Callable[[str], None]) -> bool:
    """Check one tool's index, or every index. Returns whether all are intact or repaired.

    Raises `NotFound` for a tool that does not exist.
    """
    with closing(resources.pool):
        indexes = drift.indexes(resources.pool, tool_id)
        if tool_id is not None and not indexes:
            raise NotFound(f"There is no search tool {tool_id}; `GET /api/tools/search` lists them.")
        if not indexes:
            say("There is no index yet.")
        is_intact = True
        for index_id in indexes:
            index = tools.index(resources.pool, index_id)
            if index is not None:
                is_intact = _check(resources, index, repair=repair, say=say) and is_intact
                is_intact = _check_tree(resources, index, repair=repair, say=say) and is_intact
    return is_intact


def _check(resources: Resources, index: Index, *, repair: bool, say: Callable[[str], None]) -> bool:
    try:
        store = resources.store(index.vector_store, index.keyword_index)
        report = fsck.inspect(resources.pool, store, index)
        say(f"{index.namespace}: {_summary(report)}")
        if not report.drift or not repair:
            return not report.drift
        mended = fsck.repair(resources.pool, store, index)
        for line in _repairs(mended):
            say(f"  {line}")
        if (mended.lost or mended.recounted) and mended.task_id is None:
            say("  the last run was cancelled or failed; retry or reindex the tool, which finishes the repair")
            return False
    except StoreError as error:
        say(f"{index.namespace}: not compared. {error.message}")
        return False
    except LeaseLost:
        say("  not repaired: a task is working on this index; run this again when it has ended.")
        return False
    return True


def _check_tree(resources: Resources, index: Index, *, repair: bool, say: Callable[[str], None]) -> bool:
    """Check the summaries of an index; says nothing about an index without a tree."""
    try:
        store = resources.store(index.vector_store, index.keyword_index)
        report = tree_fsck.inspect(resources.pool, store, index)
        if report is None:
            return True
        counts = {"without a vector": len(report.missing), "vectors without a summary": len(report.stray)}
        found = [f"{count:,} {phrase}" for phrase, count in counts.items() if count]
        kept = f"{report.live:,} {noun(report.live, 'summary', 'summaries')}"
        say(f"{index.namespace}{TREE}: {'; '.join([kept, *(found or ['no drift'])])}")
        if not found or not repair:
            return not found
        tree_fsck.repair(resources.pool, store, index, report)
        say("  deleted what has no summary; a build writes the missing vectors")
    except StoreError as error:
        say(f"{index.namespace}{TREE}: not compared. {error.message}")
        return False
    return True


def _summary(report: IndexReport) -> str:
    differences = [f"{number:,} {PHRASES[name]}" for name, number in report.drift.items()]
    open_task = ["a task is open"] if report.busy else []
    return "; ".join([f"{report.live:,} {noun(report.live, 'chunk')}", *(differences or ["no drift"]), *open_task])


def _repairs(mended: RepairResult) -> Iterator[str]:
    if mended.deleted:
        yield f"deleted {mended.deleted:,} vectors"
    if mended.patched:
        yield f"rewrote the attributes of {mended.patched:,} vectors"
    if mended.buried:
        yield f"deleted {mended.buried:,} unfinished chunks"
    if mended.recounted:
        yield f"recounted {mended.recounted:,} files, which will be read again"
    if mended.lost:
        yield f"{mended.lost:,} vectors to be written again: at most {mended.texts:,} texts to be embedded"
    if mended.task_id:
        yield f"task {mended.task_id} finishes the repair"
