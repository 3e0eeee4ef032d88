"""Measures what processes that work on one task cost each other in Postgres: claims and outcomes, and nothing else.

On few cores many processes show contention, not speed. `FILES=1000000` measures another number of files.
"""

from __future__ import annotations

import multiprocessing
import os
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import UUID, uuid4

from api.stack.postgres import postgres
from schemas.reason import FileStatus
from tests.bench.size.rows import TASKS, Spent, fill, rows, spending
from worker.index.pipeline import MAX_CLAIM_FILES
from worker.state.index import files
from worker.state.index.files import FileOutcome
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool

NUMBERS = (1, 4, 16, 64)
FILES = 30_000
#: The epoch of the task, from `TASKS`.
EPOCH = 1
PENDING = "UPDATE search_index_file SET status = 'pending'"
TASK = "SELECT id, index_id FROM search_index_task"
LEFT = "SELECT count(*) FROM search_index_file WHERE status = 'pending'"


def run(place: Path) -> None:
    number = int(os.environ.get("FILES") or FILES)
    for processes in NUMBERS:
        with postgres(place / str(processes)) as url:
            migrate(url)
            with open_pool(url) as pool:
                fill(url, TASKS, tasks=1, files=number)
                fill(url, PENDING)
                spent = _spent(url, pool, processes)
                assert rows(pool, LEFT) == [(0,)]
        print(
            f"{processes} processes, {number} files: {number / spent.seconds:.0f} a second, "
            f"{1e6 * spent.processor / number:.0f} µs of Postgres' processor time a file",
            flush=True,
        )


def _spent(url: str, pool: Pool, processes: int) -> Spent:
    """What it takes the processes to end all files. They start at once."""
    ((task_id, index_id),) = rows(pool, TASK)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # one import, not one a process
    together = context.Barrier(processes + 1)
    started = [context.Process(target=_work, args=(url, together, task_id, index_id)) for _ in range(processes)]
    for process in started:
        process.start()
    together.wait()  # all are connected
    with spending(pool) as spent:
        together.wait()  # they start
        together.wait()  # all files are done
    together.wait()  # their time is taken
    for process in started:
        process.join()
    assert not any(process.exitcode for process in started)
    return spent


def _work(url: str, together: Barrier, task_id: UUID, index_id: UUID) -> None:
    """Claim files and end them, like a worker to which reading and embedding cost nothing.

    Its connection stays open until its time is taken.
    """
    owner = uuid4()
    with open_pool(url) as pool:
        claim = partial(
            files.claim,
            pool,
            task_id=task_id,
            index_id=index_id,
            owner=owner,
            max_files=MAX_CLAIM_FILES,
            max_bytes=1 << 40,
        )
        rows(pool, "SELECT 1")
        together.wait()
        together.wait()
        while claims := claim():
            done = [FileOutcome(claimed.id, claimed.generation, FileStatus.INDEXED) for claimed in claims]
            with pool.connection() as connection:
                files.hold_epoch(connection, index_id, EPOCH)
                finished = files.finish(connection, owner, done)
            assert len(finished) == len(claims)
        together.wait()
        together.wait()
