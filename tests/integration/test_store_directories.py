"""A directory of vectors or contents counts if Postgres knows its mark. Another one is refused, whatever is done."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from click.testing import CliRunner, Result

from api.cli.commands import main
from schemas.errors import ContentsElsewhere, FileError, FoldexError, VectorsElsewhere
from tests.integration.database import do
from tests.integration.steps.site import resources_in
from worker.machine import directory_mark
from worker.machine.directory_mark import FILE, add_mark, new_mark, read_mark, replace_mark
from worker.objects.directory_objects import DirectoryObjects, object_path
from worker.resources import Resources, check_directories
from worker.state import store_directories
from worker.state.pool import Pool
from worker.state.store_directories import LOOK_PAUSE, MISSING_SECONDS, SAMPLE, StoreDirectory
from worker.stores import OBJECTS_DIRECTORY
from worker.vectors import Leg, VectorRow
from worker.vectors.directory_store import DirectoryStore

#: Processes that start at once.
PROCESSES = 20
SPACE = "space"
ROW = VectorRow(UUID(int=1), np.ones(4, np.float32), {"file_node_id": "n"})

Machine = Callable[[str], Resources]


@pytest.fixture
def machine(tmp_path: Path, database_url: str, pool: Pool) -> Iterator[Machine]:
    """The resources of a process on a machine of that name: with a disk of its own, and the database of all."""
    for table in ("store_directory", "content_node", "search_index_file", "search_index"):
        do(pool, f"DELETE FROM {table}")
    made: dict[str, Resources] = {}

    def resources(name: str) -> Resources:
        """The same at each call; a `+` behind the name makes it another process of that machine."""
        if name not in made:
            made[name] = resources_in(tmp_path / name.strip("+"), database_url)
        return made[name]

    yield resources
    for each in made.values():
        each.pool.close()


def directory(resources: Resources, kind: str = "lancedb") -> StoreDirectory:
    return resources.directories[kind]


def tables(resources: Resources, pool: Pool, names: int, here: int) -> None:
    """Let Postgres name some tables, of which the first are in the machine's directory."""
    for number in range(names):
        index, name = uuid4(), f"table-{number}-{uuid4().hex}"
        do(
            pool,
            "INSERT INTO search_index (id, project_id, identity, source, settings, vector_store, keyword_index,"
            " namespace) VALUES (%s, 'p', %s, '{}', '{}', 'lancedb', 'store', %s)",
            index,
            name,
            name,
        )
        do(
            pool,
            "INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version,"
            " live_chunks) VALUES (%s, %s, 'k', 'k', '/k', 1, %s, '', '', 1)",
            uuid4(),
            index,
            uuid4(),
        )
        if number < here:
            (directory(resources).path / f"{name}.lance").mkdir(parents=True)


def refused(action: Callable[[], object]) -> FoldexError:
    with pytest.raises((VectorsElsewhere, ContentsElsewhere)) as caught:
        action()
    assert caught.value.status == 503
    assert caught.value.message.count(". ") == 0
    return caught.value


@pytest.mark.parametrize("kind", ["lancedb", OBJECTS_DIRECTORY])
def test_the_first_directory_counts_and_another_one_is_refused(machine: Machine, kind: str) -> None:
    mine, other = machine("a"), machine("b")
    check_directories(mine.settings)
    path = directory(mine, kind).path
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((path / FILE).stat().st_mode) == 0o600
    assert [*path.iterdir()] == [path / FILE]
    error = refused(directory(other, kind).check)
    assert str(directory(other, kind).path) in error.message
    assert f"foldex adopt {kind}" in error.message
    assert not directory(other, kind).path.exists()
    assert mine.refused() == {}
    assert other.refused()[kind] == error.message
    assert list(store_directories.refusals(other.pool)) == []
    with pytest.raises(type(error)), directory(other, kind).using():
        pass
    assert list(store_directories.refusals(other.pool)) == [error.message]
    refused(lambda: check_directories(other.settings))
    check_directories(mine.settings)


def test_a_directory_is_the_same_by_any_path_and_after_a_move(machine: Machine, tmp_path: Path) -> None:
    directory(machine("a")).check()
    machine("b").home.mkdir()
    directory(machine("b")).path.symlink_to(directory(machine("a")).path)
    directory(machine("b")).check()
    machine("a").home.rename(tmp_path / "moved")
    directory(machine("moved")).check()
    shutil.copytree(tmp_path / "moved" / "lancedb", tmp_path / "backup")
    shutil.rmtree(tmp_path / "moved" / "lancedb")
    (tmp_path / "backup").rename(tmp_path / "moved" / "lancedb")
    directory(machine("moved")).check()


def test_processes_that_start_at_once_make_one_mark(machine: Machine, pool: Pool) -> None:
    """On two machines, so that of two directories one counts."""
    began, begin = os.pipe()
    children = {}
    homes = [machine("a").settings, machine("b").settings]
    for number in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            status = 9
            try:
                os.close(begin)
                os.read(began, 1)
                check_directories(homes[number % 2])
                status = 0
            except VectorsElsewhere:
                status = 1
            finally:
                os._exit(status)
        children[pid] = number % 2
    os.close(begin)
    ends = {pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}
    os.close(began)
    by_machine = [{ends[pid] for pid, at in children.items() if at == number} for number in range(2)]
    assert sorted(by_machine, key=sorted) == [{0}, {1}]
    winner = homes[by_machine.index({0})].foldex_home
    for kind in ("lancedb", OBJECTS_DIRECTORY):
        mark = read_mark(winner / kind)
        assert mark is not None
        assert do(pool, "SELECT id FROM store_directory WHERE kind = %s", kind) == [(mark.id,)]
        assert [*(winner / kind).iterdir()] == [winner / kind / FILE]


#: Every call of a vector store, and what of it must not happen elsewhere.
VECTOR_CALLS: dict[str, Callable[[Any], object]] = {
    "write": lambda store: store.write(SPACE, 4, [ROW]),
    "search": lambda store: store.search(SPACE, [Leg(1, vector=np.ones(4, np.float32))]),
    "ids": lambda store: store.ids(SPACE, None, 1),
    "attributes": lambda store: store.attributes(SPACE, None, 1),
    "vectors": lambda store: store.vectors(SPACE, [ROW.id]),
    "drop": lambda store: store.drop(SPACE),
    "verify": lambda store: store.verify(SPACE),
    "optimize": lambda store: store.optimize(SPACE),
}
CONTENT_CALLS: dict[str, Callable[[Any], object]] = {
    "put": lambda objects: objects.put("new", b"new"),
    "open": lambda objects: objects.open("new"),
    "get": lambda objects: objects.get("key", 100),
    "reader": lambda objects: objects.reader("key"),
    "delete": lambda objects: objects.delete("key"),
    "discard": lambda objects: objects.discard("key"),
}


def test_the_calls_are_all_that_there_are() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))}

    assert calls(DirectoryStore) - {"stored"} == VECTOR_CALLS.keys()
    assert calls(DirectoryObjects) - {"directory", "space", "using"} == CONTENT_CALLS.keys()


@pytest.mark.parametrize("kind", ["lancedb", OBJECTS_DIRECTORY])
@pytest.mark.parametrize("swap", ["other", "empty", "gone", "other marked"])
def test_a_swapped_directory_is_refused_at_work(machine: Machine, kind: str, swap: str) -> None:
    mine = machine("a")
    store, objects = mine.store("lancedb", "store"), mine.objects
    store.write(SPACE, 4, [ROW])
    objects.put("key", b"content")
    path = directory(mine, kind).path
    kept = path.rename(path.with_name("kept"))
    if swap != "gone":
        path.mkdir()
    if swap.startswith("other"):
        shutil.copytree(kept, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FILE, ".calls*"))
    if swap == "other marked":
        add_mark(path, new_mark(uuid4()))
    before = content_of(path)
    calls, used = (VECTOR_CALLS, store) if kind == "lancedb" else (CONTENT_CALLS, objects)
    for call in calls.values():
        refused(lambda call=call: call(used))  # type: ignore[misc] # the type of a default
    assert content_of(path) == before
    assert mine.refused().keys() == {kind}
    shutil.rmtree(path, ignore_errors=True)
    kept.rename(path)
    assert mine.refused() == {}
    assert store.ids(SPACE, None, 10) == [ROW.id]
    assert objects.get("key", 100) == b"content"


def content_of(path: Path) -> set[Path]:
    return {*path.rglob("*")}


@pytest.mark.parametrize("fails", [False, True])
def test_what_happens_while_another_directory_comes_there_does_not_count(machine: Machine, fails: bool) -> None:
    path = directory(machine("a"), OBJECTS_DIRECTORY).path
    objects = DirectoryObjects(path, using=directory(machine("a"), OBJECTS_DIRECTORY).using)
    objects.put("key", b"content")

    def swap() -> None:
        with directory(machine("a"), OBJECTS_DIRECTORY).using():
            path.rename(path.with_name("kept"))
            (path / "empty").mkdir(parents=True)
            if fails:
                objects_there = DirectoryObjects(path)
                objects_there.get("key", 100)

    refused(swap)
    with pytest.raises(FileError):
        DirectoryObjects(path).get("key", 100)


def test_a_process_follows_what_postgres_says(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine's directory is adopted while this process works."""
    directory(machine("a")).check()
    directory(machine("b")).adopt(accept_loss=False)
    directory(machine("b")).check()
    directory(machine("a")).check()
    monkeypatch.setattr(directory(machine("a")), "_trusted_until", 0.0)
    refused(directory(machine("a")).check)
    refused(directory(machine("a+")).check)


@pytest.mark.parametrize(("names", "here", "counts"), [(0, 0, True), (4, 2, True), (4, 1, False), (1, 0, False)])
def test_a_directory_without_a_mark_counts_if_it_has_half_of_the_tables(
    machine: Machine, pool: Pool, names: int, here: int, counts: bool
) -> None:
    """As a copy without it is."""
    tables(machine("a"), pool, names, here)
    if counts:
        directory(machine("a")).check()
        refused(directory(machine("b")).check)
        return
    assert "lacks vectors" in refused(directory(machine("a")).check).message
    assert not (directory(machine("a")).path / FILE).exists()
    assert do(pool, "SELECT FROM store_directory") == []
    directory(machine("a")).adopt(accept_loss=False)
    directory(machine("a")).check()


@pytest.mark.parametrize("more", [0, 1])
def test_no_more_tables_than_a_sample_are_looked_for(machine: Machine, pool: Pool, monkeypatch: Any, more: int) -> None:
    monkeypatch.setattr(store_directories, "SAMPLE", 4)
    tables(machine("a"), pool, 4 + more, 0)
    first = do(pool, "SELECT namespace FROM search_index ORDER BY id LIMIT 2")
    for (name,) in first:
        (directory(machine("a")).path / f"{name}.lance").mkdir(parents=True)
    directory(machine("a")).check()
    assert SAMPLE == 1000


def test_contents_without_a_mark_count_if_they_are_there(machine: Machine, pool: Pool) -> None:
    for number in range(2):
        do(
            pool,
            "INSERT INTO content_node (project_id, id, id_path, name, type, object_key)"
            " VALUES ('p', %s, '/', 'n', 'f', %s)",
            str(number),
            f"p/{number}",
        )
    contents = directory(machine("a"), OBJECTS_DIRECTORY)
    assert "lacks contents" in refused(contents.check).message
    assert "--accept-loss" in refused(lambda: contents.adopt(accept_loss=False)).message
    file = object_path(directory(machine("b"), OBJECTS_DIRECTORY).path, "p/0")
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    directory(machine("b"), OBJECTS_DIRECTORY).check()
    refused(contents.check)
    contents.adopt(accept_loss=True)
    contents.check()


def test_a_directory_of_another_installation_is_refused(machine: Machine, pool: Pool) -> None:
    """Two installations share it by mistake, or Postgres was emptied."""
    path = directory(machine("a")).path
    add_mark(path, new_mark(uuid4()))
    assert "another installation" in refused(directory(machine("a")).check).message
    before = read_mark(path)
    directory(machine("a")).adopt(accept_loss=False)
    directory(machine("a")).check()
    assert read_mark(path) != before


def test_a_process_that_died_before_the_claim_is_followed(machine: Machine, pool: Pool) -> None:
    ((installation,),) = do(pool, "SELECT id FROM installation")
    add_mark(directory(machine("a")).path, new_mark(installation))
    directory(machine("a")).check()


@pytest.mark.parametrize("text", [b"", b"x", b"\xff", b"0" * 200])
def test_a_damaged_mark_is_no_mark(machine: Machine, text: bytes) -> None:
    directory(machine("a")).check()
    (directory(machine("a")).path / FILE).write_bytes(text)
    refused(directory(machine("a")).check)
    refused(directory(machine("a+")).check)
    directory(machine("a")).adopt(accept_loss=False)
    directory(machine("a+")).check()


def age(pool: Pool, since: float, last: float) -> None:
    do(
        pool,
        "UPDATE store_directory SET missing_since = now() - make_interval(secs => %s),"
        " missing_at = now() - make_interval(secs => %s)",
        since,
        last,
    )


def test_a_lost_directory_of_vectors_is_made_again_after_a_while(machine: Machine, pool: Pool) -> None:
    mine = directory(machine("a"))
    mine.check()
    shutil.rmtree(mine.path)
    error = refused(mine.check)
    assert "missing" in error.message
    assert error.retry_after is not None
    # no reason not to start
    check_directories(machine("a").settings)
    age(pool, MISSING_SECONDS - 3, 1)
    refused(mine.check)
    # nobody looked for long, so it may have been back meanwhile
    age(pool, MISSING_SECONDS + 3, LOOK_PAUSE.total_seconds() + 3)
    assert refused(mine.check).retry_after == pytest.approx(MISSING_SECONDS, abs=3)
    age(pool, MISSING_SECONDS + 3, LOOK_PAUSE.total_seconds() - 3)
    mine.check()
    directory(machine("a+")).check()
    refused(directory(machine("b")).check)


@pytest.mark.parametrize("how", ["other machine", "empty", "link", "contents", "home gone"])
def test_what_may_only_be_out_of_sight_is_never_replaced(
    machine: Machine, pool: Pool, tmp_path: Path, how: str
) -> None:
    kind = OBJECTS_DIRECTORY if how == "contents" else "lancedb"
    looking = directory(machine("b" if how == "other machine" else "a"), kind)
    directory(machine("a"), kind).check()
    if how == "other machine":
        # it has a home of its own, and a directory that counted once
        directory(machine("b"), "objects").adopt(accept_loss=True)
    shutil.rmtree(directory(machine("a"), kind).path)
    if how == "empty":
        looking.path.mkdir()
    if how == "link":
        looking.path.symlink_to(tmp_path / "nowhere")
    if how == "home gone":
        shutil.rmtree(machine("a").home)
    for _ in range(2):
        assert refused(looking.check).retry_after is None
        age(pool, MISSING_SECONDS + 3, 1)
    assert refused(looking.check).retry_after is None


def test_of_several_processes_one_makes_a_lost_directory_again(machine: Machine, pool: Pool) -> None:
    """One that dies in between leaves it missing, and the next one goes on."""
    mine = directory(machine("a"))
    mine.check()
    shutil.rmtree(mine.path)
    refused(mine.check)
    do(pool, "UPDATE store_directory SET id = gen_random_uuid(), missing_since = NULL, missing_at = NULL")
    refused(directory(machine("a+")).check)
    age(pool, MISSING_SECONDS + 3, 1)
    directory(machine("a+")).check()
    mine.check()


def test_a_mark_is_made_once_on_a_file_system_without_links(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("os.link", refuse)
    directory(machine("a")).check()
    directory(machine("a+")).check()
    mark = read_mark(directory(machine("a")).path)
    add_mark(directory(machine("a")).path, new_mark(uuid4()))
    assert read_mark(directory(machine("a")).path) == mark


def test_a_directory_that_cannot_be_read_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(machine("a")).check()

    def fail(*_: object) -> None:
        raise OSError(116, "stale")

    monkeypatch.setattr(directory_mark, "read_mark", fail)
    assert "ESTALE" in refused(directory(machine("a")).check).message


def test_a_look_asks_postgres_once_in_a_while(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    directory(machine("a")).check()

    def fail() -> None:
        raise psycopg.OperationalError

    monkeypatch.setattr(directory(machine("a")), "_connect", fail)
    for _ in range(100):
        directory(machine("a")).check()
    monkeypatch.setattr(directory(machine("a")), "_trusted_until", 0.0)
    with pytest.raises(psycopg.OperationalError):
        directory(machine("a")).check()


def adopt(resources: Resources, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """Run `foldex adopt` on a machine."""
    monkeypatch.setenv("FOLDEX_HOME", str(resources.home))
    monkeypatch.setenv("DATABASE_URL", resources.settings.database_url)
    return CliRunner().invoke(main, ["adopt", *arguments])


def test_a_mark_at_rest_is_read_again_only_if_its_file_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def read(path: Path) -> directory_mark.Mark | None:
        reads.append(path)
        return read_mark(path)

    monkeypatch.setattr(directory_mark, "read_mark", read)
    marks, mark = directory_mark.MarkReader(tmp_path), new_mark(uuid4())
    assert marks.read() is None
    add_mark(tmp_path, mark)
    # what was just written may be written again in the same moment of the file system's clock
    assert [marks.read(), marks.read()] == [mark, mark]
    assert len(reads) == 2
    monkeypatch.setattr(directory_mark, "REST_S", -1.0)
    assert [marks.read() for _ in range(3)] == [mark] * 3
    assert len(reads) == 3
    other = new_mark(uuid4())
    replace_mark(tmp_path, other)
    assert [marks.read(), marks.read()] == [other, other]
    (tmp_path / FILE).unlink()
    assert marks.read() is None


def test_the_command_lets_another_directory_count(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    check_directories(machine("a").settings)
    done = adopt(machine("b"), monkeypatch, "lancedb", "--json")
    assert json.loads(done.output) == {"kept": "lancedb", "directory": str(directory(machine("b")).path)}
    directory(machine("b")).check()
    refused(directory(machine("a+")).check)
    assert "fsck --all --repair" in adopt(machine("a"), monkeypatch, "lancedb").output
    directory(machine("a+")).check()


def test_the_command_gives_up_contents_only_if_told_so(
    machine: Machine, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    do(
        pool,
        "INSERT INTO content_node (project_id, id, id_path, name, type, object_key)"
        " VALUES ('p', 'n', '/', 'n', 'f', 'p/n')",
    )
    kept = adopt(machine("a"), monkeypatch, "objects")
    assert kept.exit_code
    assert "--accept-loss" in str(kept.exception) + kept.output
    assert adopt(machine("a"), monkeypatch, "objects", "--accept-loss").exit_code == 0
    directory(machine("a"), OBJECTS_DIRECTORY).check()
