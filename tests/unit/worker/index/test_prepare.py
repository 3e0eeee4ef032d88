"""A slice ends after some time, wherever it is in its files: others are waiting, and the next slice continues."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from api.stack.record import ROOT
from schemas.content.document import Document
from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.errors import FileError
from schemas.reason import Reason
from schemas.tool import IndexSettings
from worker import chunk, parse
from worker.chunk.measure import ChunkSpan, Measure
from worker.embed.pace import EmbeddingPace
from worker.index import lease, memory_guard, prepare, processor_limit
from worker.index.file_states import FailedFile, File, PreparedFile
from worker.index.lease import Lease
from worker.index.prepare import read_file, read_files
from worker.index.run import IndexRun
from worker.parse import Limits
from worker.sources.local import LocalFolder
from worker.state.index.files import FileClaim
from worker.state.index.tools import Index
from worker.tokens.tokenizers import cl100k

NOT_ASKED: Any = None


def run_over(folder: Path, limits: Limits | None = None) -> IndexRun:
    settings = IndexSettings(
        embedder=EmbedderProfile(model="m", dimensions=8), chunks=ChunkSettings(), max_file_bytes=2_000_000
    )
    index = Index(uuid4(), "p", NodesSource(node_id="n"), None, settings, "lancedb", "store", "n", 1)
    source = LocalFolder(str(folder), [folder])
    return IndexRun(
        index, 1, source, cl100k(), NOT_ASKED, NOT_ASKED, NOT_ASKED, Lease(), 1, limits or Limits(), EmbeddingPace()
    )


def claim(path: str, size: int = 9, reason: Reason | None = None) -> FileClaim:
    return FileClaim(
        *(uuid4(), path.encode(), path, f"/{path}", None, None, size, "s", "markdown-2", reason, "content"),
        *(None, None, None, 0, 0, True, False),
    )


def failure_of(file: File) -> FileError:
    assert isinstance(file, FailedFile)
    return file.failure


@pytest.mark.parametrize(("seconds", "prepared"), [(0.0, 1), (60.0, 3)])
def test_a_slice_that_took_its_time_begins_no_further_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, prepared: int
) -> None:
    names = ["a.md", "b.md", "c.md"]
    for name in names:
        (tmp_path / name).write_text(f"# {name}\n")
    monkeypatch.setattr(prepare, "PREPARE_SECONDS", seconds)
    run = run_over(tmp_path)
    files = read_files(run, [claim(name) for name in names])
    # at least one, or a slice of slow files would never progress
    assert [file.claim.path for file in files] == names[:prepared]
    assert all(file.new for file in files)
    assert run.lease._parsing_since is None


@pytest.mark.parametrize(("most", "prepared"), [(3, 2), (4, 3)])
def test_a_slice_that_holds_very_much_begins_no_further_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, prepared: int
) -> None:
    """Documents of a few kilobytes may contain megabytes of text."""
    names = ["a.md", "b.md", "c.md"]
    for name in names:
        (tmp_path / name).write_text("# One\n\ntext\n\n# Two\n\ntext\n")
    monkeypatch.setattr(prepare, "PREPARE_CHUNKS", most)
    files = read_files(run_over(tmp_path), [claim(name) for name in names])
    assert [file.claim.path for file in files] == names[:prepared]


def test_a_file_may_take_its_processor_time_however_busy_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "KILL_FACTOR", 2)
    monkeypatch.setattr(lease, "_WALL_CLOCK_FACTOR", 1000)
    child = os.fork()
    if not child:
        held = Lease()
        held.note_parsing(0.1)
        time.sleep(0.4)
        held._end_endless_parsing()
        while True:
            held._end_endless_parsing()
    _, status, usage = os.wait4(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert usage.ru_utime + usage.ru_stime >= 0.2


def test_memory_that_runs_out_is_not_the_files_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it lost: the lease runs out, and the file is tried again, alone if necessary."""

    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    (tmp_path / "a.md").write_text("# One\n")
    monkeypatch.setattr(parse, "parse", exhausted)
    with pytest.raises(MemoryError):
        read_file(run_over(tmp_path), claim("a.md"))


def test_a_file_that_is_too_large_says_how_large_it_is_and_is_not_read(tmp_path: Path) -> None:
    failure = failure_of(read_file(run_over(tmp_path), claim("gone.txt", 5_000_000, Reason.TOO_LARGE)))
    assert failure.reason is Reason.TOO_LARGE
    assert "5,000,000 bytes, more than MAX_FILE_BYTES (2,000,000)" in failure.message


@pytest.mark.parametrize(
    ("text", "fits"), [("a\n" * 800_000, False), ("1 " * 800_000, False), ("some words\n" * 140_000, True)]
)
def test_a_text_whose_cutting_would_take_too_much_is_too_large(tmp_path: Path, text: str, fits: bool) -> None:
    (tmp_path / "a.txt").write_text(text)
    file = read_file(run_over(tmp_path, Limits(memory_bytes=30 << 20)), claim("a.txt"))
    assert isinstance(file, PreparedFile) is fits
    if not fits:
        failure = failure_of(file)
        assert (failure.reason, "PARSE_MEMORY_MB" in failure.message) == (Reason.TOO_LARGE, True)


#: Chunks a text and prints the peak growth of the process in MiB, or why it failed.
CUTTER = """
import sys
from schemas.content.document import Document
from schemas.errors import FileError
from schemas.content.document import Document
from schemas.errors import FileError
from schemas.content.source import ChunkSettings
from worker.chunk import chunk
from worker.index.memory_guard import GuardedTokenizer
from worker.tokens.tokenizers import cl100k

def most():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))

def cut(text, memory):
    settings = ChunkSettings(size=int(sys.argv[3]), overlap=0)
    guarded = GuardedTokenizer(cl100k(), settings, 8000, sys.argv[1], memory)
    return chunk(Document(text, "t", markup=sys.argv[1]), settings, guarded, 8000)

cut("[1, 2, 3]", 1 << 30)
text = eval(sys.argv[2])
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before, said = most(), ""
try:
    cut(text, 64 << 20)
except FileError as failure:
    said = failure.message
print(most() - before, said)
"""


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="run on Linux: only it tells what a process held"
)
@pytest.mark.parametrize(
    ("markup", "expression", "size", "fits"),
    [
        # a few long lines among many short ones
        ("lines", "'a\\n' * 300_000 + '漢' * 200_000 + '! ' * 600_000", 512, False),
        # the same words, in chunks of 512 tokens and of 16
        ("lines", "'some words ' * 60_000", 512, True),
        ("lines", "'some words\\n' * 200_000", 16, False),
        ("json", "'[' + '1,' * 500_000 + '1]'", 512, False),
    ],
)
def test_cutting_takes_no_more_than_it_may(markup: str, expression: str, size: int, fits: bool) -> None:
    command = [sys.executable, "-c", CUTTER, markup, expression, str(size)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    grown, _, said = done.stdout.strip().partition(" ")
    assert ("PARSE_MEMORY_MB" in said) is not fits
    assert int(grown) < 64


def test_a_text_is_not_counted_before_its_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_over(tmp_path, Limits(memory_bytes=1 << 20))
    settings = run.index.settings.model_copy(update={"max_token_count": 10})
    run = replace(run, index=replace(run.index, settings=settings))
    (tmp_path / "a.txt").write_text("1 " * 800_000)
    monkeypatch.setattr(memory_guard, "_SAMPLED_CHARS", 1_000_000)
    monkeypatch.setattr(prepare, "counted", NOT_ASKED)
    failure = failure_of(read_file(run, claim("a.txt")))
    assert (failure.reason, "PARSE_MEMORY_MB" in failure.message) == (Reason.TOO_LARGE, True)


def endless(text: str) -> None:
    """Never ends, whichever of its errors it catches once."""
    with suppress(BaseException):
        for _ in iter(int, 1):
            pass
    for _ in iter(int, 1):
        pass


def backtracking(text: str) -> None:
    """A pattern whose time doubles with each character."""
    re.match(r"(a+)+$", "a" * 60 + "b")


@pytest.mark.parametrize("cut", [endless, backtracking])
def test_cutting_ends_with_its_processor_time_and_costs_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: Callable[[str], None]
) -> None:
    def slow(limits: Measure, document: Document) -> Iterator[ChunkSpan]:
        if "slow" in document.text:
            cut(document.text)
        yield from chunk._lines(limits, document)

    monkeypatch.setitem(chunk._CUTTERS, "lines", slow)
    # on a busy machine the time of a slice would end before the last file
    monkeypatch.setattr(prepare, "PREPARE_SECONDS", 600.0)
    cl100k()
    names = ["a.txt", "b.txt", "c.txt"]
    for name in names:
        (tmp_path / name).write_text("slow\n" if name == "b.txt" else "text\n")
    before = signal.getsignal(signal.SIGPROF)
    first, late, last = read_files(run_over(tmp_path, Limits(seconds=0.5)), [claim(name) for name in names])
    assert isinstance(first, PreparedFile)
    assert isinstance(last, PreparedFile)
    failure = failure_of(late)
    assert failure.reason is Reason.TOO_LARGE
    assert "PARSE_SECONDS (0.5 s); split it or raise that setting." in failure.message
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_work_has_all_its_time_beside_threads_that_are_busy() -> None:
    done = threading.Event()

    def busy() -> None:
        while not done.is_set():
            pass

    others = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
    for other in others:
        other.start()

    def work() -> float:
        began = time.thread_time()
        while time.thread_time() - began < 0.3:
            pass
        return time.thread_time() - began

    try:
        assert processor_limit.run_limited(0.6, work) >= 0.3
    finally:
        done.set()
        for other in others:
            other.join()
