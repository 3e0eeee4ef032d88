"""The release before runs beside this one while work is under way, and the database is migrated beneath both."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from threading import Event, Lock, Thread

import httpx
import pytest

from api.stack import programs
from api.stack.processes import Process, Program, server_port, start, stop
from api.stack.record import ROOT
from tests.chaos import corpus
from tests.chaos.full import only_in_full
from tests.chaos.proof import CHUNKS, OUTCOMES
from tests.service import (
    TOOLS,
    Service,
    another_node,
    environment,
    eventually,
    new_database,
    next_broker,
    with_clock,
)
from tests.shared_service import local_settings
from worker.state.schema_version import needed

#: Finds the commit that added the newest migration.
NEWEST = ("log", "-1", "--diff-filter=A", "--format=%H", "--", f"schemas/migrations/{needed()[-1]}.sql")


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code as it was before the newest migration: what runs while that is applied."""
    try:
        added = git(*NEWEST).decode().strip()
        archive = git("archive", f"{added}^")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("run in a clone with the history of the newest migration (git fetch --unshallow)")
    place = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        packed.extractall(place, filter="data")
    assert not (place / "schemas" / "migrations" / f"{needed()[-1]}.sql").exists()
    return place


@dataclass
class Fleet:
    """Processes of both releases over one database, broker and home. Those that serve are searched all the time."""

    env: dict[str, str]
    before: Path
    running: dict[str, Process] = field(default_factory=dict)
    apis: dict[str, Service] = field(default_factory=dict)
    searched: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    @property
    def home(self) -> Path:
        return Path(self.env["FOLDEX_HOME"])

    def begin(self, program: Program, name: str, *, old: bool) -> None:
        """Start a process, which need not be ready yet."""
        program = replace(program, name=name)
        if old:
            program = replace(program, cwd=self.before, env={**program.env, "PYTHONPATH": str(self.before)})
        self.running[name] = start(program, self.home)

    def begin_worker(self, name: str, *, old: bool = False) -> None:
        node = another_node(self.env, "all", name, 2)
        command = tuple("fast,bulk" if part == "all" else part for part in node.command)
        (self.home / name / "run").mkdir(parents=True)
        self.begin(with_clock(replace(node, command=command), self.home / name), name, old=old)

    def begin_api(self, name: str, *, old: bool = False) -> None:
        env = {**self.env, "API_PORT": str(server_port())}
        self.begin(programs.api(env), name, old=old)
        self.await_ready(name)
        client = httpx.Client(base_url=f"http://127.0.0.1:{env['API_PORT']}", timeout=30, trust_env=False)
        self.apis[name] = Service(self.home, env, client)

    def await_ready(self, name: str) -> None:
        eventually(self.running[name].program.ready, 90, lambda: self.log(name)[-4000:])

    def end(self, name: str) -> None:
        with self.lock:
            service = self.apis.pop(name, None)
        if service is not None:
            service.client.close()
        stop([self.running.pop(name)])

    def log(self, name: str) -> str:
        return (self.home / "log" / f"{name}.log").read_text()

    def search(self, tool: str, query: str, stop_it: Event) -> None:
        """Search by each API that runs, again and again."""
        while not stop_it.wait(0.05):
            for name in list(self.apis):
                with self.lock:
                    service = self.apis.get(name)
                    # a proxy sends nothing to an API that is about to end
                    if service is not None:
                        self._search(name, service, tool, query)

    def _search(self, name: str, service: Service, tool: str, query: str) -> None:
        self.searched[name] += 1
        try:
            answer = service.client.post(f"{TOOLS}/{tool}/query", json={"query": query})
        except httpx.HTTPError as error:
            self.failed.append(f"{name}: {error!r}")
            return
        if answer.status_code != HTTPStatus.OK or not answer.json()["results"]:
            self.failed.append(f"{name}: {answer.text}")


@pytest.fixture
def fleet(tmp_path: Path, postgres_url: str, redis_url: str, root: Path, before: Path) -> Iterator[Fleet]:
    """An API and a worker of the release before, over a database that they made."""
    with new_database(postgres_url) as url:
        env = environment(tmp_path / "home", url, next_broker(redis_url), **local_settings(root))
        fleet = Fleet(env, before)
        try:
            fleet.begin_api("old-api", old=True)
            fleet.begin_worker("old-worker", old=True)
            fleet.await_ready("old-worker")
            yield fleet
        finally:
            for service in fleet.apis.values():
                service.client.close()
            stop(fleet.running.values())


@contextmanager
def searched(fleet: Fleet, folder: Path, mark: str) -> Iterator[str]:
    """A tool that is searched meanwhile. At the end it holds what a new tool over its folder does."""
    tool = fleet.apis["old-api"].local_tool(folder)
    fleet.apis["old-api"].wait(tool)
    over = Event()
    searching = Thread(target=fleet.search, args=(tool, f"{mark} tells of birds", over))
    searching.start()
    try:
        yield tool
    finally:
        over.set()
        searching.join()
    assert fleet.failed == []
    assert min(fleet.searched["old-api"], fleet.searched["new-api"]) > 10
    api = fleet.apis["new-api"]
    fresh = api.local_tool(folder, project="calm")
    api.wait(fresh)
    for query in (CHUNKS, OUTCOMES):
        assert api.rows(query, tool) == api.rows(query, fresh)


def changed(service: Service, tool: str, folder: Path, mark: str, round_: int) -> None:
    """Change, add and remove files, and have them indexed, without waiting for that."""
    for number in range(round_, 24, 4):
        corpus.write(folder / f"note-{number:02}.md", corpus.note(mark, f"{number:02} {round_}"))
    corpus.write(folder / f"new-{round_}.md", corpus.note(mark, f"new {round_}"))
    (folder / f"new-{round_ - 1}.md").unlink(missing_ok=True)
    service.post(f"{TOOLS}/{tool}/reindex", {})


@only_in_full
def test_new_workers_come_first(fleet: Fleet, root: Path) -> None:
    mark = corpus.new_mark()
    folder, newest = corpus.make(root / mark, mark), needed()[-1]
    with searched(fleet, folder, mark) as tool:
        old = fleet.apis["old-api"]
        fleet.begin_worker("new-worker")
        eventually(lambda: newest in fleet.log("new-worker"), 60, lambda: fleet.log("new-worker"))
        changed(old, tool, folder, mark, 0)
        migrated = subprocess.run(
            [sys.executable, "-m", "api", "migrate"],
            cwd=ROOT,
            env={**os.environ, **fleet.env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (migrated.returncode, newest in migrated.stdout) == (0, True), migrated.stderr
        fleet.await_ready("new-worker")
        old.wait(tool)
        changed(old, tool, folder, mark, 1)
        fleet.end("old-worker")
        old.wait(tool)
        fleet.begin_api("new-api")
        changed(fleet.apis["new-api"], tool, folder, mark, 2)
        old.wait(tool)
        fleet.end("old-api")
        changed(fleet.apis["new-api"], tool, folder, mark, 3)
        fleet.apis["new-api"].wait(tool)
    assert fleet.log("new-worker").count("lacks migrations of this release") == 1


@only_in_full
def test_the_new_api_comes_first(fleet: Fleet, root: Path) -> None:
    mark = corpus.new_mark()
    folder = corpus.make(root / mark, mark)
    with searched(fleet, folder, mark) as tool:
        changed(fleet.apis["old-api"], tool, folder, mark, 0)
        fleet.begin_api("new-api")
        for round_, name in enumerate(("new-api", "old-api"), 1):
            changed(fleet.apis[name], tool, folder, mark, round_)
            fleet.apis[name].wait(tool)
        fleet.end("old-api")
        fleet.begin_worker("new-worker")
        fleet.await_ready("new-worker")
        changed(fleet.apis["new-api"], tool, folder, mark, 3)
        fleet.end("old-worker")
        fleet.apis["new-api"].wait(tool)
