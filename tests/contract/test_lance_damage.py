"""Files of a LanceDB table are damaged: any call heals it, or sets it aside so that its rows are written again."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from signal import SIGABRT
from typing import Any
from uuid import UUID

import pytest

from schemas.errors import StoreRefused, StoreUnavailable
from tests.contract.damage import DAMAGE
from tests.contract.stores import ALWAYS, D, about, axis, near, row
from worker.vectors import VectorRow
from worker.vectors.lance import repair
from worker.vectors.lance import store as lance_store
from worker.vectors.lance.crashes import PREFIX, SLOTS, OpenCalls
from worker.vectors.lance.repair import ASIDE
from worker.vectors.lance.store import LanceStore

ROOT = Path(__file__).resolve().parents[2]
SPACE = "space"
ROWS: dict[int, VectorRow] = {
    number: row(number, axis(number % D, 0.01 * number), f"word w{number}") for number in range(1, 60)
}
GONE = [UUID(int=5), UUID(int=35), UUID(int=50)]


def filled(directory: Path) -> LanceStore:
    """A table with indexes, several fragments and versions, and deleted rows."""
    made = LanceStore(directory, has_keywords=True, thresholds=ALWAYS)
    made.write(SPACE, D, list(ROWS.values())[:40])
    made.optimize(SPACE)
    made.write(SPACE, D, list(ROWS.values())[40:], deletes=GONE[:2])
    made.write(SPACE, D, deletes=GONE[2:])
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("whole")
    filled(made)
    return made


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits are tried once: nobody else writes here."""
    monkeypatch.setattr(lance_store, "ATTEMPTS", 1)


def files(directory: Path) -> list[Path]:
    """The files of a table, one of each kind and place in a version first."""
    table = directory / f"{SPACE}.lance"
    return sorted(path.relative_to(directory) for path in table.rglob("*") if path.is_file())


def answers(opened: LanceStore) -> Any:
    """What searches and lists answer; everything in a table is read for it."""
    vectors = opened.vectors(SPACE, [UUID(int=number) for number in ROWS])
    found = [near(opened, SPACE, axis(number)) for number in range(D)]
    words = [about(opened, SPACE, f"w{number}") for number in ROWS]
    attributes = opened.attributes(SPACE, None, 1000)
    return opened.ids(SPACE, None, 1000), found, words, attributes, {id_: bytes(each) for id_, each in vectors.items()}


CALLS: dict[str, Callable[[LanceStore], Any]] = {
    "query": answers,
    "edit": lambda opened: opened.write(SPACE, D, [ROWS[7]], deletes=[UUID(int=5)]),
    "fsck": lambda opened: opened.verify(SPACE),
    "compaction": lambda opened: opened.optimize(SPACE),
}


def heal(opened: LanceStore, call: Callable[[LanceStore], Any]) -> None:
    """Make a call until it succeeds. The only error says that it should be made again."""
    for _ in range(8):
        with suppress(StoreUnavailable):
            call(opened)
            return
    call(opened)


def heals(whole: Path, place: Path, name: Path, kind: str, seed: int) -> None:
    """Damage a file, then make all calls, in any order. Then write what is missing, as a repair by the rows does."""
    random = Random(f"{name} {kind} {seed}")
    shutil.copytree(whole, place, dirs_exist_ok=True)
    opened = LanceStore(place, has_keywords=True, thresholds=ALWAYS)
    if random.random() < 0.5:
        # a process that had the table open
        answers(opened)
    DAMAGE[kind](place / name, random)
    for call in random.sample([*CALLS], len(CALLS)):
        heal(opened, CALLS[call])
    ids = {*opened.ids(SPACE, None, 1000)}
    missing = [each for each in ROWS.values() if each.id not in ids | {*GONE}]
    heal(opened, lambda opened: opened.write(SPACE, D, missing, deletes=GONE))
    heal(opened, CALLS["compaction"])
    for reader in (opened, LanceStore(place, has_keywords=True)):
        assert answers(reader) == answers(LanceStore(whole, has_keywords=True))


SAMPLE = Random(1)


@pytest.mark.parametrize("seed", range(16))
def test_a_damaged_table_is_healed_by_any_call(whole: Path, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    heals(whole, tmp_path, random.choice(files(whole)), random.choice([*DAMAGE]), seed)


# --- damage that ends processes

OPEN = """
import sys
from pathlib import Path
from worker.vectors.lance.store import LanceStore
store = LanceStore(Path(sys.argv[1]), has_keywords=True)
"""
LIST = """
from schemas.errors import StoreUnavailable
try:
    store.ids("space", None, 1000)
except StoreUnavailable as error:
    assert "try again" in error.message
print(len(store.ids("space", None, 1000)))
"""


def read_elsewhere(directory: Path) -> subprocess.CompletedProcess[str]:
    """What another process, which has not read the table before, finds in it."""
    command = (sys.executable, "-c", OPEN + LIST, str(directory))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def make_abort(directory: Path) -> None:
    """Write a length into a list of deleted rows that no memory holds: Lance aborts when it reads that."""
    file = min((directory / f"{SPACE}.lance" / "_deletions").glob("*.arrow"))
    data = bytearray(file.read_bytes())
    data[-26:-18] = b"\x7f" * 8
    file.write_bytes(data)


def test_damage_that_ends_a_process_ends_no_second_one(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    make_abort(tmp_path)
    assert read_elsewhere(tmp_path).returncode == -SIGABRT
    second = read_elsewhere(tmp_path)
    assert (second.returncode, second.stdout.splitlines()[-1:]) == (0, ["0"])
    assert [entry.name for entry in tmp_path.iterdir() if ASIDE.fullmatch(entry.name)]
    assert not (tmp_path / f"{SPACE}.lance").exists()


@pytest.mark.parametrize("kill", [True, False])
def test_a_process_that_ends_for_another_reason_costs_no_table(whole: Path, tmp_path: Path, kill: bool) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    begun = "calls = store._calls.call('space.lance')\ncalls.__enter__()\nimport os\n"
    end = "os.kill(os.getpid(), 9)" if kill else "os._exit(0)"
    command = (sys.executable, "-c", f"{OPEN}{begun}{end}", str(tmp_path))
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
    assert len(LanceStore(tmp_path, has_keywords=True).ids(SPACE, None, 1000)) == len(ROWS) - len(GONE)
    # nothing is left of processes that ended, nor of stores that are closed
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


@pytest.mark.parametrize(("calls", "noted"), [(SLOTS, SLOTS), (SLOTS + 1, SLOTS)])
def test_more_calls_at_a_time_than_there_is_room_for_are_made_too(tmp_path: Path, calls: int, noted: int) -> None:
    opened = OpenCalls(tmp_path, lambda _: None)
    with ExitStack() as stack:
        for number in range(calls):
            stack.enter_context(opened.call(f"{number}.lance"))
        (file,) = tmp_path.glob(f"{PREFIX}*")
        assert file.read_bytes().count(b".lance") == noted
    assert not file.read_bytes().strip(b"\0")
    with opened.call("more.lance"):
        assert b"more.lance" in file.read_bytes()


# --- what is no damage


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.ENOSPC, errno.ENOMEM, errno.EIO, errno.EISDIR])
def test_only_damage_sets_a_table_aside(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    opened, before = LanceStore(tmp_path, has_keywords=True), files(tmp_path)

    def fail(*_: object) -> None:
        raise RuntimeError(f"lance error: Generic LocalFileSystem error: {os.strerror(number)} (os error {number})")

    with monkeypatch.context() as patched:
        patched.setattr(repair, "_read_rows", fail)
        patched.setattr(lance_store, "_read", fail)
        with pytest.raises(StoreUnavailable):
            opened.ids(SPACE, None, 10)
    is_damage = number in {errno.EIO, errno.EISDIR}
    assert (opened.ids(SPACE, None, 1000) == []) is is_damage
    if not is_damage:
        assert files(tmp_path) == before


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("lance error: Out of memory: 5 bytes")])
def test_too_little_memory_sets_no_table_aside(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    opened = LanceStore(tmp_path, has_keywords=True)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(repair, "_read_rows", fail)
    with pytest.raises(StoreUnavailable):
        opened.verify(SPACE)
    assert (tmp_path / f"{SPACE}.lance").is_dir()


def test_a_table_that_was_made_again_meanwhile_is_not_set_aside(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"{SPACE}.lance"
    number = path.stat().st_ino
    path.rename(tmp_path / "before")
    shutil.copytree(tmp_path / "before", path)
    assert repair.set_aside(tmp_path, path, number) is repair.Condition.UNKNOWN
    assert path.is_dir()


@pytest.mark.parametrize("number", [repair.KEPT, repair.KEPT + 1])
def test_a_few_damaged_tables_are_kept(whole: Path, tmp_path: Path, number: int) -> None:
    for _ in range(number):
        shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
        repair.set_aside(tmp_path, tmp_path / f"{SPACE}.lance")
    assert len([entry for entry in tmp_path.iterdir() if ASIDE.fullmatch(entry.name)]) == repair.KEPT
    LanceStore(tmp_path, has_keywords=True).drop(SPACE)
    assert not [entry for entry in tmp_path.iterdir() if ASIDE.fullmatch(entry.name)]


def test_a_call_that_is_refused_again_and_again_reads_a_whole_table_once(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    reads: list[int] = []
    read_rows = repair._read_rows

    def count(dataset: Any) -> None:
        reads.append(1)
        read_rows(dataset)

    monkeypatch.setattr(repair, "_read_rows", count)
    opened = LanceStore(tmp_path, has_keywords=True)
    for _ in range(3):
        with pytest.raises(StoreRefused), opened._whole(SPACE):
            raise ValueError("a filter that LanceDB rejects")
    assert reads == [1]
