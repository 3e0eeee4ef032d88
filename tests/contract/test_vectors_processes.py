"""Vector stores in several processes, and after a fork."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.contract.stores import ALWAYS, D, about, axis, near, row
from tests.fakes.turbopuffer import FakeTurbopuffer
from worker.tokens.keywords import Keywords
from worker.vectors import Condition, Patch, Value, VectorStore
from worker.vectors.lance.crashes import PREFIX
from worker.vectors.lance.store import LanceStore
from worker.vectors.turbopuffer import TurbopufferStore


def in_processes(work: Any, *arguments: Any, count: int = 1) -> None:
    """Run `work(number, *arguments)` in new processes, and show their tracebacks if any fails."""
    context = multiprocessing.get_context("spawn")
    errors = context.SimpleQueue()
    running = [context.Process(target=_report, args=(errors, work, n, *arguments)) for n in range(count)]
    for process in running:
        process.start()
    for process in running:
        process.join(60)
        assert process.exitcode is not None, "still running after 60 s"
    assert errors.empty(), errors.get()
    assert {process.exitcode for process in running} == {0}
    errors.close()


def _report(errors: Any, work: Any, *arguments: Any) -> None:
    try:
        work(*arguments)
    except BaseException:
        errors.put(traceback.format_exc())
        raise


def write_same_rows(process: int, directory: Path) -> None:
    store = LanceStore(directory, has_keywords=True, thresholds=ALWAYS)
    for turn in range(10):
        numbers_ = [(turn % 3) * 20 + n for n in range(20)]
        store.write("shared", D, [row(n, axis(n % D), f"common by{process}") for n in numbers_])
        store.write("shared", D, patches=[Patch(UUID(int=n), {"symbol": "patched"}) for n in numbers_])
        store.write("shared", D, deletes=[UUID(int=1000 + turn)])
        if process == 0 and turn % 4 == 3:
            store.optimize("shared")


def test_processes_writing_the_same_rows_make_no_duplicates(tmp_path: Path) -> None:
    in_processes(write_same_rows, tmp_path, count=3)
    store = LanceStore(tmp_path, has_keywords=True)
    assert store.ids("shared", None, 999) == [UUID(int=n) for n in range(60)]
    assert sorted(about(store, "shared", "common", limit=999)) == list(range(60))
    assert sorted(near(store, "shared", axis(0), Condition("symbol", "in", ["patched"]), limit=999)) == list(range(60))
    own_calls, *tables = sorted(path.name for path in tmp_path.iterdir())
    # processes that have ended leave nothing behind
    assert own_calls.startswith(PREFIX)
    assert tables == ["shared.lance"]


def patch_same_rows(process: int, directory: Path) -> None:
    store = LanceStore(directory, has_keywords=True)
    for turn in range(8):
        generation = 1 + 3 * turn + (process + turn) % 3
        values: dict[str, Value] = {"symbol": str(generation)}
        rows = [Patch(UUID(int=n), values, Keywords(f"word{generation}", "w"), generation) for n in range(20)]
        store.write("patched", D, patches=rows)


def test_of_patches_by_several_processes_the_latest_generation_stays(tmp_path: Path) -> None:
    store = LanceStore(tmp_path, has_keywords=True)
    store.write("patched", D, [row(n, axis(n % D), "old") for n in range(20)])
    in_processes(patch_same_rows, tmp_path, count=3)
    latest = Condition("symbol", "in", ["24"])
    assert sorted(near(store, "patched", axis(0), latest, limit=99)) == list(range(20))
    assert sorted(about(store, "patched", "word24", limit=99)) == list(range(20))
    assert store.ids("patched", None, 99) == [UUID(int=n) for n in range(20)]


def write_one(process: int, directory: Path) -> None:
    LanceStore(directory, has_keywords=True).write("seen", D, [row(50 + process, axis(0), "theirs")])


def test_rows_of_other_processes_are_seen_at_once(tmp_path: Path) -> None:
    store = LanceStore(tmp_path, has_keywords=True)
    store.write("seen", D, [row(1, axis(0), "ours")])
    assert near(store, "seen", axis(0)) == [1]
    in_processes(write_one, tmp_path)
    assert near(store, "seen", axis(0)) == [1, 50]
    assert about(store, "seen", "theirs") == [50]


def fork_then_use(_: int, directory: Path, url: str, key: str) -> None:
    lance = LanceStore(directory, has_keywords=True)
    puffer_ = TurbopufferStore(key, region="", base_url=url, has_keywords=True)
    puffer_.write("forked", D, [row(0, axis(0))])
    children = [_fork(partial(_use, [lance, puffer_], n)) for n in range(1, 4)]
    _expect_success(children)
    assert len(lance.ids("forked", None, 9)) == 3
    _expect_success([_fork(lambda: _must_raise(lance))])


def _fork(work: Any) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except Exception:  # noqa: BLE001 - a child must never run on into pytest
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def _use(stores: list[VectorStore], number: int) -> None:
    for store in stores:
        store.write("forked", D, [row(number, axis(0), "word")])
        assert number in near(store, "forked", axis(0))


def _must_raise(store: VectorStore) -> None:
    with pytest.raises(RuntimeError, match="before the fork"):
        store.ids("forked", None, 1)


def _expect_success(children: list[int]) -> None:
    deadline = time.monotonic() + 30
    left = set(children)
    while left and time.monotonic() < deadline:
        for child in list(left):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                left.discard(child)
                assert os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    assert not left


def test_stores_work_after_a_fork(tmp_path: Path, fake: FakeTurbopuffer) -> None:
    in_processes(fork_then_use, tmp_path, fake.url, fake.api_key)
    assert len(fake.namespaces["forked"].rows) == 4
