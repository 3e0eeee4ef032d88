"""`foldex fsck`: compares the vector store and the access lists of nodes with the rows, and repairs differences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from schemas.errors import LeaseLost, NotFound, StoreError
from schemas.wording import amount, noun
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.index import drift, tools
from worker.state.index.tools import TREE, Index
from worker.upkeep import fsck, tree_fsck
from worker.upkeep.fsck import RepairResult

#: A phrase for each kind of drift.
PHRASES = {
    "missing": ("chunk without a vector", "chunks without a vector"),
    "stray": ("vector without a chunk", "vectors without a chunk"),
    "misplaced": ("vector with wrong attributes", "vectors with wrong attributes"),
    "miscounted": ("file with a wrong number of chunks", "files with a wrong number of chunks"),
    "bare": ("indexed file without chunks", "indexed files without chunks"),
    "unfinished": ("chunk that never became live", "chunks that never became live"),
    "overdue": ("delete overdue", "deletes overdue"),
}
#: The same for summaries.
TREE_PHRASES = {
    "missing": ("without a vector", "without a vector"),
    "stray": ("vector without a summary", "vectors without a summary"),
}
#: The same for access lists of nodes.
LIST_PHRASES = {
    "misfiled": ("with another access list than its folders say", "with another access list than their folders say")
}


@dataclass(slots=True)
class Finding:
    """Result of checking one namespace, or the nodes of one project. `--json` prints these fields.

    `ok`: nothing differs, or it was repaired. `live`: how many chunks, summaries or nodes there are; None if they were
    not compared. `drift`: how many of each kind differ. `busy`: a task is open. `message`: what could not be done, and
    why.
    """

    namespace: str
    what: Literal["chunks", "summaries", "nodes"]
    ok: bool = False
    live: int | None = None
    drift: dict[str, int] = field(default_factory=dict)
    busy: bool = False
    repaired: RepairResult | None = None
    message: str | None = None


def check(resources: Resources, tool_id: UUID | None, *, repair: bool) -> Iterator[Finding]:
    """Check, and perhaps repair, one tool's index or every index.

    Raises `NotFound` for a tool that does not exist.
    """
    with closing(resources.pool):
        indexes = drift.indexes(resources.pool, tool_id)
        if tool_id is not None and not indexes:
            raise NotFound(f"There is no search tool {tool_id}; `foldex tools` lists them.")
        for index_id in indexes:
            index = tools.index(resources.pool, index_id)
            if index is not None:
                yield _check_chunks(resources, index, repair=repair)
                summaries = check_tree(resources, index, repair=repair)
                if summaries is not None:
                    yield summaries
        for project in nodes.listed_projects(resources.pool, tool_id):
            yield _check_lists(resources, project, repair=repair)


def _check_lists(resources: Resources, project: str, *, repair: bool) -> Finding:
    found = Finding(project, "nodes", live=nodes.count(resources.pool, project))
    found.drift = _counted(misfiled=nodes.count_misfiled(resources.pool, project, repair=repair))
    found.ok = repair or not found.drift
    return found


def _check_chunks(resources: Resources, index: Index, *, repair: bool) -> Finding:
    found = Finding(index.namespace, "chunks")
    try:
        store = resources.store_of(index)
        report = fsck.inspect(resources.pool, store, index)
        found.live, found.drift, found.busy = report.live, report.drift, report.busy
        if report.drift and repair:
            found.repaired = mended = fsck.repair(resources.pool, store, index)
            if (mended.lost or mended.recounted) and mended.task_id is None:
                found.message = "the last run was cancelled or failed; retry or reindex the tool to finish the repair."
        found.ok = not report.drift or (repair and found.message is None)
    except StoreError as error:
        found.message = _refusal(found, error)
    except LeaseLost:
        found.message = "not repaired: a task is working on this index; run this again when it has ended."
    return found


def check_tree(resources: Resources, index: Index, *, repair: bool) -> Finding | None:
    """Check the summaries of an index; None if it has no tree."""
    found = Finding(index.namespace + TREE, "summaries")
    try:
        store = resources.store_of(index)
        report = tree_fsck.inspect(resources.pool, store, index)
        if report is None:
            return None
        missing, stray = len(report.missing), len(report.stray)
        found.live, found.drift = report.live, _counted(missing=missing, stray=stray)
        if found.drift and repair:
            tree_fsck.repair(resources.pool, store, index, report)
            found.repaired = RepairResult(deleted=stray, lost=missing)
        found.ok = not found.drift or repair
    except StoreError as error:
        found.message = _refusal(found, error)
    return found


def _refusal(found: Finding, error: StoreError) -> str:
    return f"not {'compared' if found.live is None else 'repaired'}. {error.message}"


def _counted(**numbers: int) -> dict[str, int]:
    return {name: number for name, number in numbers.items() if number}


def lines(found: Finding) -> Iterator[str]:
    """The finding as lines of text."""
    if found.live is None:
        yield f"{found.namespace}: {found.message}"
        return
    is_tree = found.what == "summaries"
    count = noun(found.live, "summary", "summaries") if is_tree else noun(found.live, found.what.removesuffix("s"))
    phrases = {"chunks": PHRASES, "summaries": TREE_PHRASES, "nodes": LIST_PHRASES}[found.what]
    differences = [amount(number, *phrases[name]) for name, number in found.drift.items()]
    open_task = ["a task is open"] if found.busy else []
    yield f"{found.namespace}: {'; '.join([f'{found.live:,} {count}', *(differences or ['no drift']), *open_task])}"
    if found.repaired and is_tree:
        yield "  deleted what has no summary; a build writes the missing vectors"
    elif found.repaired:
        yield from (f"  {line}" for line in _repairs(found.repaired))
    if found.message:
        yield f"  {found.message}"


def _repairs(mended: RepairResult) -> Iterator[str]:
    if mended.deleted:
        yield f"deleted {amount(mended.deleted, 'vector')}"
    if mended.patched:
        yield f"rewrote the attributes of {amount(mended.patched, 'vector')}"
    if mended.buried:
        yield f"deleted {amount(mended.buried, 'unfinished chunk')}"
    if mended.recounted:
        yield f"recounted {amount(mended.recounted, 'file')}, which will be read again"
    if mended.lost:
        texts = amount(mended.texts, "text")
        yield f"{amount(mended.lost, 'vector')} to be written again: at most {texts} to be embedded"
    if mended.task_id:
        yield f"task {mended.task_id} finishes the repair"
