"""Each kind of thing that calls hold is bounded in all and by project, and so are those that wait for it."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

import api
from api.http import shares
from api.http.shares import QUEUE_SECONDS, SHARES, THREADS, Share
from schemas.errors import FoldexError, ProjectBusy
from tests import coroutines
from tests.service import eventually
from worker.machine.sharing import slots
from worker.machine.sharing.fair_threads import FairThreads
from worker.machine.sharing.slots import RecentOwners
from worker.state.connections import REQUEST

#: What bounds things by itself, and why no project has a share of them.
ELSEWHERE = {
    # at least as many threads as searches, each of which has one request in flight
    "api/search/query/query_vectors.py": 2,
    # each model is asked once a minute, whoever wants to know
    "api/models/check.py": 1,
    # bodies that are parsed and contents that are judged, with shares of projects of their own
    "api/http/bodies.py": 1,
    "api/routes/content/node_answers.py": 1,
    # as many threads as bodies that wait for these
    "api/http/middleware.py": 1,
}
#: Calls that make something which bounds things.
MAKERS = {"Slots", "ThreadPoolExecutor", "Semaphore", "BoundedSemaphore", "CapacityLimiter", "FairThreads"}

each_share = pytest.mark.parametrize("share", SHARES, ids=lambda share: share.what)


def impatient(share: Share, queue: int = 1) -> Share:
    """The same share with slots of its own, which never rest, and little patience."""
    return replace(share, seconds=0.05, queue=min(queue, share.queue), rest=0.0, callers=RecentOwners())


@each_share
def test_a_project_that_holds_its_share_stops_itself_alone(share: Share) -> None:
    share = impatient(share)
    with ExitStack() as stack:
        for _ in range(share.each):
            stack.enter_context(share.hold("a"))
        with pytest.raises(ProjectBusy, match="already has its share of"), share.hold("a"):
            pass
        with share.hold("b"):
            pass


@each_share
def test_all_projects_together_hold_no_more_than_there_is(share: Share) -> None:
    share = impatient(share)
    assert share.beside <= share.each < share.total, "one project may hold everything"
    owners = [owner for owner in map(str, range(share.total)) for _ in range(share.beside)][: share.total]
    with ExitStack() as stack:
        for owner in owners:
            stack.enter_context(share.hold(owner))
        with pytest.raises(FoldexError) as refused, share.hold("another"):
            pass
    assert (type(refused.value), refused.value.status, refused.value.retryable) == (share.busy, 503, True)
    with share.hold("another"):
        pass


def test_a_call_of_any_kind_makes_its_project_another() -> None:
    uploads, searches = impatient(shares.UPLOADS), impatient(shares.SEARCHES)
    assert uploads.beside < uploads.each
    searches = replace(searches, callers=uploads.callers)
    with ExitStack() as stack:
        for _ in range(uploads.beside):
            stack.enter_context(uploads.hold("a"))
        with uploads.hold("a"):
            pass
        with searches.hold("b"):
            pass
        with pytest.raises(ProjectBusy), uploads.hold("a"):
            pass


def test_calls_without_a_key_make_no_project_another() -> None:
    by_address = [share for share in SHARES if share.callers is not shares.UPLOADS.callers]
    assert by_address == [shares.PROBES, shares.KEYS]


@each_share
def test_calls_are_bounded_alike(share: Share) -> None:
    async def run() -> None:
        own = impatient(share)
        async with AsyncExitStack() as stack:
            for _ in range(own.each):
                await stack.enter_async_context(own.hold_by_call("a"))
            with pytest.raises(ProjectBusy):
                await stack.enter_async_context(own.hold_by_call("a"))
            await stack.enter_async_context(own.hold_by_call("b"))
        async with own.hold_by_call("a"):
            pass

    coroutines.run(run())


@each_share
def test_a_queue_that_is_full_refuses_at_once(share: Share) -> None:
    async def run() -> None:
        own = replace(share, seconds=60)
        async with AsyncExitStack() as stack:
            for _ in range(own.each):
                await stack.enter_async_context(own.hold_by_call("a"))
            waiting = [asyncio.create_task(enter(own)) for _ in range(own.queue)]
            await asyncio.sleep(0)
            assert not any(task.done() for task in waiting)
            with pytest.raises(ProjectBusy):
                await asyncio.wait_for(enter(own), 10)
        await asyncio.wait_for(asyncio.gather(*waiting), 10)

    async def enter(own: Share) -> None:
        async with own.hold_by_call("a"):
            pass

    coroutines.run(run())


@each_share
def test_a_project_takes_less_while_others_come(share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    share = impatient(share)
    with share.hold("b"):
        pass
    with ExitStack() as stack:
        for _ in range(share.beside):
            stack.enter_context(share.hold("a"))
        if share.beside < share.each:
            with pytest.raises(ProjectBusy), share.hold("a"):
                pass
        monkeypatch.setattr(slots, "RECENT_SECONDS", 0)
        for _ in range(share.each - share.beside):
            stack.enter_context(share.hold("a"))
        with pytest.raises(ProjectBusy), share.hold("a"):
            pass


def test_who_waits_for_another_machine_lets_others_compute() -> None:
    with shares.computing("a"), shares.elsewhere(), ExitStack() as stack:
        for _ in range(shares.COMPUTING.each):
            stack.enter_context(shares.computing("a"))
    with shares.elsewhere(), shares.computing("a"):
        pass


def test_what_a_call_waits_in_one_queue_is_taken_from_its_others() -> None:
    async def run() -> None:
        own, others = (Share(what, 2, 1, 1, seconds=60) for what in ("some", "others"))
        async with own.hold_by_call("a"), others.hold_by_call("a"):
            with shares.one_call():
                with pytest.raises(ProjectBusy):
                    await asyncio.wait_for(own.hold_by_call("a").__aenter__(), shares.QUEUE_SECONDS + 20)
                began = time.monotonic()
                with pytest.raises(ProjectBusy):
                    await asyncio.to_thread(others.hold("a").__enter__)
                assert time.monotonic() - began < shares.QUEUE_SECONDS
                # room that is free needs no patience
                async with own.hold_by_call("b"):
                    pass

    coroutines.run(run())


def test_a_call_that_queues_and_meets_a_lock_is_answered_within_ten_seconds() -> None:
    assert all(share.seconds <= QUEUE_SECONDS for share in SHARES)
    # one more attempt may begin just before the time is over
    assert QUEUE_SECONDS + REQUEST.again + REQUEST.lock < 10
    assert QUEUE_SECONDS + REQUEST.pool + max(REQUEST.lock, REQUEST.answer) < 10


def test_a_cancelled_call_leaves_the_queue() -> None:
    async def run() -> None:
        own = Share("things", 2, 1, 1, seconds=60)
        async with own.hold_by_call("a"):
            waiting = asyncio.create_task(own.hold_by_call("a").__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with own.hold_by_call("a"), own.hold_by_call("b"):
            pass

    coroutines.run(run())


@pytest.mark.parametrize("threads", THREADS, ids=lambda threads: threads.name)
def test_a_project_uses_no_more_threads_than_its_share(threads: FairThreads) -> None:
    own, go, began = FairThreads("test", threads.number, threads.per_owner), Event(), list[str]()
    assert threads.per_owner < threads.number

    def work(owner: str) -> str:
        began.append(owner)
        assert go.wait(20)
        return owner

    futures = [own.submit("a", lambda: work("a")) for _ in range(threads.number + 1)]
    late = own.submit("b", lambda: work("b"))
    unwanted = own.submit("a", lambda: work("unwanted"))
    assert unwanted.cancel()
    eventually(lambda: "b" in began, 20)
    assert began.count("a") <= threads.per_owner
    go.set()
    assert [future.result(20) for future in (*futures, late)] == ["a"] * len(futures) + ["b"]
    assert "unwanted" not in began


def test_nothing_else_in_the_api_bounds_what_calls_hold() -> None:
    root = Path(api.__file__).parent
    found = {
        f"api/{path.relative_to(root).as_posix()}": count
        for path in sorted(root.rglob("*.py"))
        if path != Path(shares.__file__) and (count := sum(1 for _ in made_in(path)))
    }
    assert found == ELSEWHERE, "give it a row in api/http/shares.py"


def made_in(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) in MAKERS:
            yield node
