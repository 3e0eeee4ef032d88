"""What work has freed goes back to the machine, although memory beside it is still in use."""

from __future__ import annotations

import ctypes
import multiprocessing
from contextlib import suppress

import psutil
import pytest

from tests.service import eventually
from worker.machine.memory import freed_memory
from worker.machine.memory.freed_memory import IdleProcess, give_back

#: Bytes of a block: more than Python's own allocator takes, less than the C library maps by itself.
BLOCK = 2_000
BLOCKS = 50_000


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def kept_and_given_back(answers: multiprocessing.SimpleQueue[tuple[int, int]]) -> None:
    """Free all blocks but the last, behind which the C library cannot shrink its memory."""
    blocks = [bytes(BLOCK) for _ in range(BLOCKS)]
    last = blocks[-1]
    used = resident()
    blocks.clear()
    kept = resident()
    give_back()
    assert len(last) == BLOCK
    answers.put((used - kept, kept - resident()))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="run with glibc: others have no such call")
def test_freed_memory_goes_back() -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.SimpleQueue[tuple[int, int]] = context.SimpleQueue()
    child = context.Process(target=kept_and_given_back, args=(answers,))
    child.start()
    child.join(60)
    assert child.exitcode == 0

    freed_alone, given_back = answers.get()

    assert freed_alone < BLOCK * BLOCKS // 10
    assert given_back > BLOCK * BLOCKS * 9 // 10


@pytest.mark.parametrize("fails", [False, True])
def test_memory_goes_back_once_after_the_last_work(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    given: list[str] = []
    monkeypatch.setattr(freed_memory, "give_back", lambda: given.append("memory"))
    monkeypatch.setattr(freed_memory, "IDLE_SECONDS", 3600.0)
    idle = IdleProcess()
    with idle.work():
        pass
    waiting = idle._timer
    assert waiting is not None
    monkeypatch.setattr(freed_memory, "IDLE_SECONDS", 0.0)
    with suppress(RuntimeError), idle.work():
        waiting.join(60)
        assert not waiting.is_alive()
        assert given == []
        if fails:
            raise RuntimeError
    eventually(lambda: given == ["memory"], 60)
