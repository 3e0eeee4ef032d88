"""The reported cost of a run equals what the provider was asked for, however many attempts were needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from uuid import uuid4

import pytest

from tests.chaos.cluster import client_of
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import NewService, Service, eventually

#: Longer than a slice waits in place for its provider.
LONG_WAIT = 6.0


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, provider: EmbeddingsFake) -> Iterator[Service]:
    """A service whose processes embed one text in each request."""
    one_by_one = {"EMBEDDING_BATCH_SIZE": "1", "EMBEDDING_CONCURRENCY": "1"}
    with new_service(**provider.env, **one_by_one, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


@pytest.fixture(autouse=True)
def calm(provider: EmbeddingsFake) -> Iterator[None]:
    provider.reset()
    yield
    provider.holds.release()


def new(*words: str) -> list[str]:
    """Words that no other test uses."""
    return [f"{word} {uuid4().hex}" for word in words]


def write(folder: Path, *words: str, name: str = "words.md") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"# {word}\n\nA section about {word}.\n\n" for word in words))
    return folder


def paid(provider: EmbeddingsFake) -> int:
    """Texts sent to the provider, except for its probe."""
    return provider.audit.texts.total() - provider.audit.times("word") - provider.audit.times("warm")


def test_what_was_paid_before_the_provider_failed_is_counted(
    running: Service, provider: EmbeddingsFake, root: Path
) -> None:
    words = new("apples", "birds", "cars")
    hold = provider.holds.add("embeddings", words[2])
    tool = running.local_tool(write(root / "failing", *words))
    eventually(lambda: bool(hold.arrived) and paid(provider) == 2, 30, running.logs)
    provider.fail_next(429, retry_after=LONG_WAIT)
    hold.release()
    status = running.wait(tool)
    (file,) = running.files(tool)
    assert (paid(provider), file["chunks"], file["attempts"]) == (3, 3, 1)
    assert (status["embedded_chunks"], status["reused_chunks"]) == (3, 0)
    assert (file["embedded_chunks"], status["tokens"], file["tokens"]) == (3, file["tokens"], file["tokens"])


def test_what_a_process_paid_that_slept_through_its_lease_is_counted(
    running: Service, provider: EmbeddingsFake, root: Path
) -> None:
    words = new("eggs", "flags")
    hold = provider.holds.add("embeddings", words[1], after=True)
    tool = running.local_tool(write(root / "sleeping", *words))
    eventually(lambda: bool(hold.arrived) and paid(provider) == 2, 30, running.logs)
    pid = client_of(hold.arrived[0], provider.url)
    os.kill(pid, SIGSTOP)
    try:
        hold.release()
        status = running.wait(tool)
        assert (status["total_chunks"], status["failed_files"]) == (2, 0)
    finally:
        os.kill(pid, SIGCONT)

    def said() -> int:
        return sum(file["embedded_chunks"] for file in running.files(tool))

    # the one text whose answer arrived during the suspension was requested again
    eventually(lambda: said() == paid(provider) == 3, 20, lambda: f"{said()}\n{running.logs()}")


def test_what_another_tool_pays_for_meanwhile_is_not_paid_again(
    running: Service, provider: EmbeddingsFake, root: Path
) -> None:
    words = new("gates", "hills", "inns", "jars")
    folder = write(root / "shared", *words)
    write(folder, *words[1:], name="some.md")
    hold = provider.holds.add("embeddings", words[0])
    waiting = running.local_tool(folder, config={"include": ["words.md"]})
    eventually(lambda: bool(hold.arrived), 30, running.logs)
    other = running.wait(running.local_tool(folder, config={"include": ["some.md"]}))
    hold.release()
    status = running.wait(waiting)
    assert (other["embedded_chunks"], status["embedded_chunks"], status["reused_chunks"]) == (3, 1, 3)
    assert paid(provider) == len(words)
