"""Two processes that watch the same folders: one freezes or dies, the other takes over, and no edit costs two runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from signal import SIGCONT, SIGKILL, SIGSTOP
from uuid import uuid4

import pytest

from api.stack import programs
from api.stack.processes import running
from tests.chaos import corpus
from tests.chaos.cluster import Cluster
from tests.chaos.full import only_in_full
from tests.chaos.proof import INDEX, Case, Result, prove
from tests.service import TOOLS, eventually

pytestmark = only_in_full

TASKS = f"SELECT count(*) FROM search_index_task WHERE index_id = {INDEX}"
LOOKED = f"SELECT 1 FROM search_index_change WHERE ran_at IS NOT NULL AND index_id = {INDEX}"


@pytest.fixture
def watchers(here: Cluster) -> Iterator[Sequence[str]]:
    """Two processes that watch, by names whose logs are new."""
    names = [f"watch-{uuid4().hex[:6]}" for _ in range(2)]
    program = programs.watch({**here.env, "WATCH_REST_SECONDS": "2"})
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(running(replace(program, name=name), here.home))
        yield names


def _holder(here: Cluster, names: Sequence[str]) -> str:
    """Which of the two watches; the other one waits for its turn."""

    def logged(name: str) -> str:
        return (here.home / "log" / f"{name}.log").read_text()

    eventually(lambda: any("waiting" in logged(name) for name in names), 30, lambda: "\n".join(map(logged, names)))
    (holder,) = [name for name in names if "waiting" not in logged(name)]
    return holder


@pytest.mark.parametrize("signal", [SIGSTOP, SIGKILL])
def test_edits_are_found_once_whichever_process_watches(
    here: Cluster,
    watchers: Sequence[str],
    new_case: Callable[..., Case],
    calm: Result,
    calm_edited: Result,
    signal: int,
) -> None:
    made = new_case("watched")
    made.start()
    here.patch(made.tool, watch=True)
    prove(made, calm)
    eventually(lambda: bool(here.rows(LOOKED, made.tool)), 60, here.logs)
    here.wait(made.tool)
    ((before,),) = here.rows(TASKS, made.tool)
    holder = _holder(here, watchers)
    pid = here.pid(holder)
    os.kill(pid, signal)
    corpus.edit(made.folder, made.mark)
    eventually(lambda: here.rows(TASKS, made.tool) != [(before,)], 90, here.logs)
    prove(made, calm_edited)
    if signal == SIGSTOP:
        os.kill(pid, SIGCONT)
    note = made.folder / "note-20.md"
    note.unlink()
    gone = {"query": f"{made.mark} 20", "filters": {"path": note.name}}
    eventually(
        lambda: here.client.post(f"{TOOLS}/{made.tool}/query", json=gone).json().get("code") == "no_such_files",
        60,
        here.logs,
    )
    ((after,),) = here.rows(TASKS, made.tool)
    # a takeover looks through the folder, and so does a process that resumes
    assert after - before <= 4
