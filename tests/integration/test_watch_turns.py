"""Which of several processes watches: one at a time, and never one that stopped responding or has no Postgres."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings, ToolConfig
from tests.fakes.silence import Silence
from tests.service import environment, eventually
from worker.state.index import tools
from worker.state.pool import open_pool

#: Seconds without a heartbeat after which a process loses its turn.
SILENCE = 2
RUN = f"""
from threading import Event
from worker.resources import Resources
from worker.settings import Settings
from worker.upkeep import watch
watch.TURN_SECONDS = 0.2
watch.run(Resources(Settings()), Event(), silence={SILENCE})
"""


@dataclass
class Watching:
    """A process that watches, or waits for its turn."""

    child: subprocess.Popen[bytes]
    log: Path

    def says(self, words: str, times: int = 1) -> bool:
        return self.log.read_text().count(words) >= times

    def will_say(self, words: str, times: int = 1) -> None:
        eventually(lambda: self.says(words, times), 30, self.log.read_text)


@contextmanager
def watching(home: Path, database_url: str, root: Path) -> Iterator[Watching]:
    log = home.with_suffix(".log")
    env = environment(home, database_url, "redis://127.0.0.1:1/0", LOCAL_SOURCE_ROOTS=str(root))
    with (
        log.open("wb") as said,
        subprocess.Popen([sys.executable, "-c", RUN], env=env, stdout=said, stderr=said) as child,
    ):
        try:
            yield Watching(child, log)
        finally:
            child.kill()


@pytest.fixture
def folder(tmp_path: Path, database_url: str) -> Path:
    """A folder that a tool watches."""
    folder = tmp_path / "root" / "folder"
    folder.mkdir(parents=True)
    settings = IndexSettings(
        embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1000
    )
    source = LocalSource(kind="local", path=str(folder))
    with open_pool(database_url) as pool:
        wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", settings, "lancedb", "store")
        tools.create(pool, wanted, name="", config=ToolConfig(watch=True))
    return folder


def is_noted(database_url: str) -> bool:
    """Whether a change waits for a run or started one. Removes it for the next check."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        taken = connection.execute(
            "UPDATE search_index_change SET due_at = NULL, since = NULL, ran_at = NULL, rest_until = NULL"
            " WHERE due_at IS NOT NULL OR ran_at IS NOT NULL"
        )
        return taken.rowcount > 0


def test_a_process_that_is_stopped_loses_its_turn_and_notices(folder: Path, tmp_path: Path, database_url: str) -> None:
    places = [(tmp_path / name, database_url, folder.parent) for name in ("first", "second")]
    with watching(*places[0]) as first:
        eventually(lambda: is_noted(database_url), 30, first.log.read_text)
        with watching(*places[1]) as second:
            second.will_say("waiting")
            first.child.send_signal(SIGSTOP)
            # a turn begins with a scan for missed changes
            eventually(lambda: is_noted(database_url), 30, second.log.read_text)
            (folder / "a.md").write_text("changed")
            eventually(lambda: is_noted(database_url), 30, second.log.read_text)
            first.child.send_signal(SIGCONT)
            first.will_say("Postgres does not answer")
            first.will_say("another process is watching")
            (folder / "a.md").write_text("changed again")
            eventually(lambda: is_noted(database_url), 30, second.log.read_text)


def test_a_process_that_works_keeps_its_turn(folder: Path, tmp_path: Path, database_url: str) -> None:
    with watching(tmp_path / "only", database_url, folder.parent) as only:
        eventually(lambda: is_noted(database_url), 30, only.log.read_text)
        turns = holders(database_url)
        assert len(turns) == 1
        for number in range(2 * SILENCE):
            (folder / "a.md").write_text(f"changed {number}")
            eventually(lambda: is_noted(database_url), 30, only.log.read_text)
            sleep(database_url)
        assert holders(database_url) == turns


def test_a_process_warns_once_of_an_outage_and_says_when_it_is_over(
    folder: Path, tmp_path: Path, database_url: str
) -> None:
    port = urlsplit(database_url).port
    with Silence(port or 5432) as proxy:
        behind = database_url.replace(f":{port}", f":{proxy.port}")
        with watching(tmp_path / "only", behind, folder.parent) as only:
            only.will_say("watching a folder")
            for outage in range(1, 3):
                proxy.refuses = True
                proxy.cut()
                only.will_say("still does not answer", 3 * outage)
                assert only.says("Postgres does not answer", outage)
                assert not only.says("Postgres does not answer", outage + 1)
                assert not only.says("Postgres answers again", outage)
                proxy.refuses = False
                only.will_say("Postgres answers again", outage)
            is_noted(database_url)
            (folder / "a.md").write_text("changed")
            eventually(lambda: is_noted(database_url), 30, only.log.read_text)


def holders(database_url: str) -> set[int]:
    with psycopg.connect(database_url) as connection:
        return {pid for (pid,) in connection.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")}


def sleep(database_url: str) -> None:
    """Let a second pass on the server's clock, which decides when a turn ends."""
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT pg_sleep(1)")
