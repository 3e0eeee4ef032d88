"""Access lists change during searches, runs, kills and switches of models: what is taken away is shown to nobody."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import httpx
import pytest

from schemas.scopes import Scope
from tests.chaos.cluster import Cluster, Unavailable
from tests.chaos.full import IS_FULL
from tests.model.asked_readers import PEOPLE, WAYS, WHOLE, Project, new_project
from tests.service import another_api
from worker.state.access import keys
from worker.state.pool import open_pool

SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
SECONDS = float(os.environ.get("CHAOS_SECONDS") or 15)
#: Requests after which the test ends, if it has the time for them.
REQUESTS = 100_000 if IS_FULL else 2_000
SEARCHERS = 6
#: Of requests that show one file, for each that shows all: they take a fifth of the time.
ONE_BY_ONE = 15
SHARES = {way: 1 if way in WHOLE else ONE_BY_ONE for way in WAYS}
#: What a run of some seconds reaches on a slow machine.
MIN_CHANGES, MIN_REQUESTS = 5, 50
#: Seconds between two changes, and between two faults.
CHANGE_SECONDS, FAULT_SECONDS = 0.15, 4.0
#: Of the APIs: where vectors are, and where keywords are.
PLACES = {"turbopuffer": "store", "lancedb": "postgres"}


@dataclass
class Watched:
    """A project that is changed and searched, and who read what after each change."""

    project: Project
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: The files of each person, after each change that was sent.
    history: list[dict[str | None, set[str]]] = field(default_factory=list)
    #: The last change that was answered.
    answered: int = 0
    wrong: list[tuple[object, ...]] = field(default_factory=list)

    def note(self) -> None:
        model = self.project.model
        self.history.append({person: model.files(person) for person in (None, *PEOPLE)})

    def change(self, ends: float) -> None:
        """Make a random change, and send it until it is answered."""
        in_model, in_service = self.project.any_change()
        with self.lock:
            in_model(self.project.model)
            self.note()
        while time.monotonic() < ends:
            with suppress(httpx.TransportError):
                if in_service().is_success:
                    self.answered = len(self.history) - 1
                    return
            time.sleep(0.05)

    def search(self, dice: random.Random) -> None:
        """Ask once. All that may be shown was to be read at some time between question and answer."""
        person = dice.choice((None, *PEOPLE))
        (way,) = dice.choices([*SHARES], [*SHARES.values()])
        first = self.answered
        shown = self.project.shown(person, way)
        if shown is None:
            return
        with self.lock:
            states = self.history[first:]
        permitted = set().union(*(state[person] for state in states))
        if not shown <= permitted:
            self.wrong.append((way, person, shown - permitted, first, len(states)))

    def change_until(self, is_over: Callable[[], bool], ends: float) -> None:
        while not is_over():
            self.change(ends)
            time.sleep(CHANGE_SECONDS)

    def search_until(self, is_over: Callable[[], bool], dice: random.Random) -> None:
        while not is_over():
            self.search(dice)


@pytest.fixture
def watched(here: Cluster) -> Iterator[list[Watched]]:
    """A project in each store, behind an API of its own that asks for keys."""
    dice = random.Random(SEED)
    with ExitStack() as stack:
        pool = stack.enter_context(open_pool(here.env["DATABASE_URL"]))

        def new_key(project: str, *scopes: Scope) -> str:
            return keys.create(pool, project, "chaos", scopes)[1]

        found = []
        for store, keywords in PLACES.items():
            env = {"AUTH": "on", "VECTOR_STORE": store, "KEYWORD_INDEX": keywords}
            api = stack.enter_context(another_api(here, **env))
            project = new_project(api.client, new_key, dice)
            project.fill(folders=5, files=15)
            # the shorter a call, the fewer changes may excuse what it shows
            project.some = 1
            found.append(Watched(project))
            found[-1].note()
        yield found


@pytest.mark.timeout(int(SECONDS) + 300)
def test_nobody_sees_what_a_change_took_away(
    here: Cluster, watched: list[Watched], record_property: Callable[[str, object], None]
) -> None:
    ends = time.monotonic() + SECONDS

    def is_over() -> bool:
        return time.monotonic() > ends or sum(each.project.answered for each in watched) >= REQUESTS

    threads = []
    for each in watched:
        threads.append(threading.Thread(target=each.change_until, args=(is_over, ends)))
        for number in range(SEARCHERS):
            dice = random.Random(SEED + number)
            threads.append(threading.Thread(target=each.search_until, args=(is_over, dice)))
    for thread in threads:
        thread.start()
    dice = random.Random(SEED)
    while not is_over():
        time.sleep(min(FAULT_SECONDS, max(0.1, ends - time.monotonic())))
        disturb(here, dice.choice(watched).project, dice)
    for thread in threads:
        thread.join(60)
    assert [each.wrong for each in watched] == [[], []], SEED
    assert min(len(each.history) for each in watched) > MIN_CHANGES
    assert min(each.project.answered for each in watched) > MIN_REQUESTS
    took = time.monotonic() - (ends - SECONDS)
    requests = sum(each.project.answered for each in watched)
    record_property("requests", f"{requests:,}, {requests / took:.0f} a second")
    record_property("changes", f"{sum(len(each.history) - 1 for each in watched):,}")
    here.calm()
    for each in watched:
        each.project.check(SEED)


def disturb(here: Cluster, project: Project, dice: random.Random) -> None:
    """Kill a worker, index all again, or switch to another index by another model."""
    what = dice.choice(["kill", "reindex", "switch"])
    with suppress(Unavailable, OSError):
        if what == "kill":
            here.kill(dice.choice(["worker-fast", "worker-bulk"]))
        elif what == "reindex":
            project.send("POST", f"/api/tools/search/{project.tool}/reindex", {"full": True})
        else:
            config = {"embedding_model": dice.choice(["openai/fake", "openai/other"])}
            project.send("PATCH", f"/api/tools/search/{project.tool}", {"config": config})
