"""A seeded random adversary: it kills, pauses, fakes failures and edits for a while. Afterwards all must be as without.

The seed decides the actions and their order. When exactly they hit the processes depends on the processes.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import httpx
import psycopg
from redis.exceptions import RedisError

from tests.chaos import corpus
from tests.chaos.cluster import BULK, FAST, PAID_IN_VAIN, WORKERS, Cluster, Unavailable
from tests.chaos.proof import INDEX, Case, case, make_late_writes_impossible, paid_twice, prove, prove_vectors
from tests.service import TOOLS, eventually
from worker.index.lease import RENEW_SECONDS
from worker.state.index.tasks import LEASE

#: Number of folders that change all the time. The last one's indexes are in LanceDB.
FOLDERS = 4
#: Maximum seconds between two actions.
PAUSE = 0.8
#: Share of runs that begin while the provider does not answer.
LAGGING_SHARE = 0.5
#: Maximum seconds for which the provider does not answer.
HOLD = 6.0
#: Notes of an answer that leaves a part of the index out.
UNSEARCHED = frozenset({"keywords_only", "meaning_only", "vectors_missing", "removals_held"})
#: Maximum seconds for which a process is paused: longer than a lease.
SLEEP = 11.0
#: Minimum seconds left of a lease when its owner is paused.
LEASE_LEFT = LEASE.total_seconds() - RENEW_SECONDS
#: Seconds within which everything must come to rest after the last action.
WAIT_SECONDS = 120.0


@dataclass
class Monkey:
    """The adversary. `deeds` counts actions for the report, `hurt` counts processes for the bill."""

    here: Cluster
    root: Path
    seed: int
    say: Callable[[str], None] = print
    cases: list[Case] = field(default_factory=list)
    deeds: Counter[str] = field(default_factory=Counter)
    #: Number of processes whose paid texts may have to be paid for again.
    hurt: int = 0
    #: When to resume each paused process.
    asleep: dict[int, float] = field(default_factory=dict)
    #: When to release what the provider holds.
    held_until: float = 0.0
    #: Chunks that a search by words found before they had their vectors.
    found_early: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.verbs: list[tuple[int, Callable[[], None]]] = [
            (10, self.edit_a_note),
            (4, self.rename_a_note),
            (4, self.remove_a_note),
            (8, self.index_again),
            (2, self.delete_all_tools),
            (2, self.delete_a_tool),
            (3, self.reindex_a_tool),
            (2, self.cancel_a_tool),
            (2, self.retry_a_tool),
            (2, self.change_a_tool),
            (6, self.kill_a_child),
            (2, self.kill_a_worker),
            (2, self.roll_a_worker),
            (1, self.kill_a_server),
            (4, self.pause_a_child),
            (1, self.pause_a_worker),
            (3, self.lose_messages),
            (4, self.double_messages),
            (5, self.fail_the_provider),
            (5, self.fail_the_store),
            (2, self.slow_the_provider),
            (5, self.hold_the_provider),
            (12, self.search_words),
        ]

    def run(self, seconds: float) -> None:
        """Act for `seconds`, then prove that it had no lasting effect."""
        self.say(f"monkey: seed {self.seed}, {seconds:g} s")
        self.cases = [case(self.here, self.root, "monkey", lance=n == FOLDERS - 1) for n in range(FOLDERS)]
        if self.random.random() < LAGGING_SHARE:
            self.hold_the_provider()
        for made in self.cases:
            made.start()
        deadline = time.monotonic() + seconds
        weights = [weight for weight, _ in self.verbs]
        while time.monotonic() < deadline:
            (_, deed) = self.random.choices(self.verbs, weights)[0]
            pause = self.random.uniform(0, PAUSE)
            # Programs that are down or not yet up cannot be hurt.
            with suppress(OSError, LookupError, httpx.HTTPError, psycopg.OperationalError, RedisError, Unavailable):
                deed()
                self.deeds[deed.__name__] += 1
            self.wake(time.monotonic())
            time.sleep(pause)
        self.wake(float("inf"))
        self.say(f"monkey: seed {self.seed} did {dict(self.deeds)}, found {self.found_early} chunks without a vector")
        self.here.calm()
        self.prove()

    def prove(self) -> None:
        """Every index comes to rest by itself. One more run makes it equal to a first run of its folder."""
        eventually(lambda: not self.open_tasks(), WAIT_SECONDS, lambda: f"{self.open_tasks()}\n{self.here.logs()}")
        for made in self.cases:
            made.start()
            self.here.wait(made.tool, WAIT_SECONDS)
            if self.here.status(made.tool)["held_removals"]:
                self.here.ask(made.tool, "reindex", {"allow_removals": True})
        # Count before the fresh indexes pay for the same texts.
        vain = [paid_twice(self.here, made.tool) for made in self.cases]
        self.say(f"monkey: hurt {self.hurt} processes, which cost {sum(vain)} texts")
        assert sum(vain) <= self.hurt * PAID_IN_VAIN
        fresh = [Case(self.here, f"fresh-{made.project}", made.folder, made.mark) for made in self.cases]
        for made in fresh:
            made.start()
        for made, other, paid in zip(self.cases, fresh, vain, strict=True):
            self.here.wait(other.tool, WAIT_SECONDS)
            expected = other.result()
            prove(made, expected, in_vain=paid + len(expected.chunks), seconds=WAIT_SECONDS)
        for index, tool in self.here.rows("SELECT index_id, min(id::text) FROM search_tool GROUP BY 1"):
            lance = self.here.rows("SELECT vector_store = 'lancedb' FROM search_index WHERE id = %s", index)[0][0]
            prove_vectors(self.here, tool, lance=lance)
        make_late_writes_impossible(self.here)
        eventually(lambda: not self.strays(), 30, lambda: f"namespaces of no index: {self.strays()}")

    def open_tasks(self) -> list[tuple[object, ...]]:
        """Tasks that have not ended yet."""
        return self.here.rows("SELECT * FROM search_index_task WHERE status IN ('pending', 'indexing')")

    def strays(self) -> set[str]:
        """Namespaces of the monkey's projects that belong to no index."""
        with self.here.vectors.lock:
            there = {name for name in self.here.vectors.namespaces if "monkey-" in name}
        live = self.here.rows("SELECT namespace FROM search_index WHERE deleted_at IS NULL")
        return there - {name for (name,) in live}

    def wake(self, now: float) -> None:
        if self.held_until <= now:
            self.here.embeddings.holds.release()
        for pid in [pid for pid, due in self.asleep.items() if due <= now]:
            del self.asleep[pid]
            with suppress(ProcessLookupError):
                os.kill(pid, SIGCONT)

    # ---- what users do

    def a_case(self) -> Case:
        return self.random.choice(self.cases)

    def a_note(self) -> tuple[Case, Path]:
        made = self.a_case()
        return made, self.random.choice(sorted(made.folder.glob("*.md")))

    def edit_a_note(self) -> None:
        made, path = self.a_note()
        words = tuple(self.random.sample((*corpus.FRUITS, "zebras", "stones", "rivers"), 3))
        corpus.write(path, corpus.note(made.mark, f"{self.random.randrange(100):02}", words))

    def rename_a_note(self) -> None:
        _, path = self.a_note()
        path.rename(path.with_name(f"moved-{self.random.randrange(10**6)}.md"))

    def remove_a_note(self) -> None:
        made, path = self.a_note()
        if len(list(made.folder.glob("*.md"))) > corpus.NOTES - 4:
            path.unlink()
        else:
            name = f"{self.random.randrange(10**6)}"
            corpus.write(made.folder / f"new-{name}.md", corpus.note(made.mark, name))

    def index_again(self) -> None:
        self.a_case().start()

    def tools(self, made: Case) -> list[str]:
        return [
            tool for (tool,) in self.here.rows("SELECT id::text FROM search_tool WHERE project_id = %s", made.project)
        ]

    def a_tool(self) -> str:
        return self.random.choice(self.tools(self.a_case()))

    def delete_all_tools(self) -> None:
        """Delete all tools and create another at once: the index goes with its last tool, and a new one replaces it."""
        made = self.a_case()
        for tool in self.tools(made):
            self.here.delete(tool)
        made.start()

    def delete_a_tool(self) -> None:
        made = self.a_case()
        self.here.delete(self.random.choice([tool for tool in self.tools(made) if tool != made.tool]))

    def reindex_a_tool(self) -> None:
        self.here.ask(self.a_tool(), "reindex", {"full": self.random.random() < 0.3})

    def cancel_a_tool(self) -> None:
        self.here.ask(self.a_tool(), "cancel")

    def retry_a_tool(self) -> None:
        self.here.ask(self.a_tool(), "retry")

    def change_a_tool(self) -> None:
        self.here.patch(self.a_tool(), chunk_size=self.random.choice([None, 64]))

    def search_words(self) -> None:
        """Whatever is live before and after a search by words is found, with its vector or without."""
        made = self.a_case()
        client = self.here.lance if made.lance else self.here.client
        before = self.live(made)
        body = {"query": made.mark, "mode": "keyword", "top_k": 1000}
        answer = client.post(f"{TOOLS}/{made.tool}/query", json=body)
        live = self.live(made).items() & before.items()
        # a store that was told to fail is left out
        if answer.is_success and not {note["code"] for note in answer.json()["notes"]} & UNSEARCHED:
            found = {hit["chunk_text"] for hit in answer.json()["results"]}
            missed = {text for _, (text, _) in live} - found
            assert not missed, f"{made.tool}: {missed}\n{answer.json()['notes']}\n{self.here.logs()}"
            self.found_early += sum(is_early for _, (_, is_early) in live)

    def live(self, made: Case) -> dict[str, tuple[str, bool]]:
        """The live chunks that have the mark of their folder, each with whether it lacks its vector."""
        rows = self.here.rows(
            f"SELECT id::text, chunk_text, lost FROM chunk WHERE index_id = {INDEX} AND live", made.tool
        )
        return {id_: (text, is_lost) for id_, text, is_lost in rows if made.mark in text}

    # ---- what happens to processes

    def a_child(self) -> int:
        return self.random.choice([pid for name in WORKERS for pid in self.here.children(name)])

    def kill_a_child(self) -> None:
        os.kill(self.a_child(), SIGKILL)
        self.hurt += 1

    def kill_a_worker(self) -> None:
        name = self.random.choice(WORKERS)
        children = len(self.here.children(name))
        self.here.kill(name)
        self.hurt += children

    def roll_a_worker(self) -> None:
        self.here.send(self.random.choice(WORKERS), SIGTERM)

    def kill_a_server(self) -> None:
        name = self.random.choice(["api", "beat", "redis", "postgres"])
        self.here.kill(name)
        if name == "postgres":
            # Answers that arrive while Postgres is down cannot be recorded.
            self.hurt += FAST + BULK

    def pause_a_child(self) -> None:
        self.sleep(self.a_child())

    def pause_a_worker(self) -> None:
        name = self.random.choice(WORKERS)
        for pid in [self.here.pid(name), *self.here.children(name)]:
            self.sleep(pid)

    def sleep(self, pid: int) -> None:
        seconds = self.random.uniform(0, SLEEP)
        self.asleep[pid] = time.monotonic() + seconds
        os.kill(pid, SIGSTOP)
        # It may be resumed up to one pause too late.
        self.hurt += seconds + PAUSE > LEASE_LEFT

    # ---- what happens to messages

    def lose_messages(self) -> None:
        with self.here.broker() as broker:
            self.random.choice([broker.flushall, lambda: broker.delete("fast"), lambda: broker.delete("bulk")])()

    def double_messages(self) -> None:
        task = self.here.task(self.a_case().tool)[0]
        name, queue = self.random.choice([("plan", "fast"), ("plan", "bulk"), ("index", "fast"), ("index", "bulk")])
        self.here.publish(f"foldex.{name}", task, queue, self.random.randint(1, 6))

    # ---- what others do

    def fail_the_provider(self) -> None:
        status = self.random.choice([0, 408, 429, 429, 500, 503])
        retry_after = self.random.choice([None, 1.0]) if status == 429 else None
        self.here.embeddings.fail_next(status, retry_after, self.random.randint(1, 4))

    def fail_the_store(self) -> None:
        status, applied = self.random.choice([0, 429, 500, 503]), self.random.random() < 0.5
        self.here.vectors.fail_next(status, applied=applied and status != 429, count=self.random.randint(1, 3))

    def slow_the_provider(self) -> None:
        self.here.embeddings.delay = self.random.choice([0.0, 0.1, 0.5])

    def hold_the_provider(self) -> None:
        """Have the provider answer nothing for longer than words wait."""
        self.here.embeddings.holds.add("embeddings")
        self.held_until = time.monotonic() + self.random.uniform(1, HOLD)
