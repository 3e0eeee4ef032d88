"""Local folders of several machines: one that only some of them have, one that all share, and copies of one."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.errors import FolderElsewhere, FolderGone
from schemas.tool import IndexSettings, ToolConfig
from tests.integration.database import do
from worker.app import BULK, FAST, app
from worker.machine.host import Host
from worker.resources import Resources
from worker.settings import LOCAL_MODEL, Settings
from worker.sources import local_identity
from worker.sources.local import LocalFolder
from worker.sources.local_identity import NEWEST, OTHERS, is_same, view_of
from worker.state.index import local_folders, statuses, tool_actions, tools
from worker.state.index.local_folders import REFUSED, UNSEEN
from worker.state.index.statuses import TaskOfTool
from worker.state.index.tools import Index
from worker.state.pool import Pool
from worker.tasks import index, plan, process

PROFILE = EmbedderProfile(model=LOCAL_MODEL, dimensions=384)
SETTINGS = IndexSettings(embedder=PROFILE, chunks=ChunkSettings(), max_file_bytes=1000)
WORKER_RUNS = """
INSERT INTO host_process (id, host_id, host_name, role, node, queues, release, needed_schema, settings, settings_digest,
    shown, clock_seconds, clock_doubt_seconds)
VALUES (gen_random_uuid(), %s, %s, 'worker', %s, %s, '', '', '{}', '', '{}', 0, 0)
"""
#: Long enough ago that a file's stamp is trusted.
LONG_AGO = 1_600_000_000


class Machines:
    """Machines with the database and the vectors of one installation. Each sees its own folder at the same path."""

    def __init__(self, by_name: dict[str, Resources], place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_name, self._monkeypatch = by_name, monkeypatch
        self.folder = place / "folder"
        self.folder.mkdir()
        # a link, because a directory that is renamed changes
        self.path = place / "path"
        self.path.symlink_to(self.folder)
        self.pool = self.by_name["a"].pool
        self.tool, self.task = self.new_tool()

    def new_tool(self, **changed: Any) -> tuple[UUID, UUID]:
        source = LocalSource(kind="local", path=str(self.path))
        settings = SETTINGS.model_copy(update=changed)
        wanted = tools.NewIndex(f"p-{uuid4().hex}", source, "h.1", settings, "lancedb", "store")
        tool, task = tools.create(self.pool, wanted, name="", config=ToolConfig())
        assert task is not None
        return tool, task

    def take_messages(self, *names: str) -> None:
        """Note that workers of these machines run."""
        for name in names:
            self.run_worker(name, FAST, BULK)

    def run_worker(self, name: str, *queues: str) -> None:
        """Note that a worker runs which takes messages of these queues."""
        host = self.by_name[name].host
        do(self.pool, "DELETE FROM host_process WHERE host_id = %s", host.id)
        do(self.pool, WORKER_RUNS, host.id, host.name, name, [*queues])
        local_folders.note_machine(self.pool, host)

    @contextmanager
    def at(self, name: str, other: Path | None = None) -> Iterator[Resources]:
        """Be a process of a machine, which sees another folder at the path if one is given."""
        self.path.unlink()
        self.path.symlink_to(other or self.folder)
        self._monkeypatch.setattr(process, "resources", lambda: self.by_name[name])
        try:
            yield self.by_name[name]
        finally:
            self.path.unlink()
            self.path.symlink_to(self.folder)

    def list(self) -> dict[str, Any]:
        return plan._plan(self.task)

    def work(self) -> dict[str, Any]:
        return index._index_fairly(self.task)

    def run(self) -> None:
        """List and index, as one machine does alone."""
        assert "listed" in self.list()
        worked = self.work()
        assert self.state.status == "ready", (worked, self.state)

    def again(self, *, allow_removals: bool = False) -> None:
        task = tool_actions.reindex(self.pool, self.tool, full=False, allow_removals=allow_removals)
        assert task is not None
        self.task = task

    @property
    def index(self) -> Index:
        found = tools.index_of_tool(self.pool, self.tool)
        assert found is not None
        return found

    @property
    def state(self) -> TaskOfTool:
        found = statuses.newest_of_tool(self.pool, self.tool)
        assert found is not None
        return found

    def indexed(self) -> dict[str, str]:
        """The status of each file that is not removed, by path."""
        rows = do(
            self.pool,
            "SELECT path, status FROM search_index_file WHERE index_id = %s AND status <> 'removed'",
            self.index.id,
        )
        return dict(rows)


@pytest.fixture(scope="module")
def by_name(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Resources]]:
    """The resources of a process on each machine. They share the model, which takes long to open."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(
        auth="off", database_url=database_url, foldex_home=home, local_source_roots=[tmp_path_factory.getbasetemp()]
    )
    made = {name: Resources(settings, host=Host(name, name * 12)) for name in "abc"}
    for each in made.values():
        each._embedders = made["a"]._embedders
    yield made
    for each in made.values():
        each.pool.close()


@pytest.fixture
def machines(by_name: dict[str, Resources], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    # a listing leaves the files to the slices of a test
    monkeypatch.setattr("worker.tasks.plan.index_due", lambda _: {})
    for each in by_name.values():
        # as in a process that has just started
        each.__dict__.pop("folders", None)
    made = Machines(by_name, tmp_path, monkeypatch)
    for table in ("host_process", "folder_host", "folder_refusal", "indexed_folder"):
        do(made.pool, f"DELETE FROM {table}")
    # rendering tracebacks takes longer than these tests
    with capture_logs():
        yield made
    do(made.pool, "UPDATE search_index_task SET status = 'cancelled' WHERE status IN ('pending', 'indexing')")


def write(folder: Path, *numbers: int, text: str = "kiwi") -> None:
    folder.mkdir(exist_ok=True)
    for number in numbers:
        file = folder / f"{number}.md"
        file.write_text(f"# {text} {number}\n\nThe {text} of file {number} is ripe.\n")
        os.utime(file, (LONG_AGO, LONG_AGO))


def end(machines: Machines, monkeypatch: pytest.MonkeyPatch, seconds: int = 3) -> None:
    """Let the workers end so long ago that nobody waits for them, by some seconds."""
    # a server that just started takes nobody for dead
    patience = timedelta(seconds=10)
    monkeypatch.setattr(local_folders, "PATIENCE", patience)
    do(machines.pool, "SELECT pg_sleep(greatest(0, 11 - extract(epoch FROM now() - pg_postmaster_start_time())))")
    do(machines.pool, "UPDATE host_process SET seen_at = now() - %s - make_interval(secs => %s)", patience, seconds)


def distrust(machines: Machines) -> None:
    """Forget the stamps of all files, as of files that were read just after they were written."""
    do(machines.pool, "UPDATE search_index_file SET stamp = '' WHERE index_id = %s", machines.index.id)


# ---- a folder that only some machines have


def test_a_folder_that_one_machine_lacks_is_indexed_by_another(machines: Machines, tmp_path: Path) -> None:
    write(machines.folder, 1, 2)
    machines.take_messages("a", "b")
    with machines.at("b", tmp_path / "nothing"):
        assert "left" in machines.list()
        assert machines.state.status in {"pending", "indexing"}
        assert "is not a directory" in str(machines.state.warning)
        # it leaves the task alone for a while
        assert "left" in machines.list()
    with machines.at("a"):
        assert machines.list() == {"listed": True}
    with machines.at("b", tmp_path / "nothing"):
        assert "left" in machines.work()
    with machines.at("a"):
        machines.work()
    assert machines.state.status == "ready"
    assert machines.state.warning is None
    assert machines.indexed() == {"1.md": "indexed", "2.md": "indexed"}


def test_a_folder_that_no_machine_has_ends_the_task_and_names_those_that_looked(
    machines: Machines, tmp_path: Path
) -> None:
    machines.take_messages("a", "b", "c")
    for name in "bca":
        assert machines.state.error is None
        with machines.at(name, tmp_path / "nothing"):
            machines.list()
    assert machines.state.error_code == "folder_gone"
    assert str(machines.state.error).endswith("(the machines that looked: a, b, c).")
    # the next run asks all of them again
    machines.again()
    machines.take_messages("b")
    with machines.at("a", tmp_path / "nothing"):
        assert "left" in machines.list()


def test_a_single_machine_sees_no_difference(machines: Machines, tmp_path: Path) -> None:
    with machines.at("a", tmp_path / "nothing"):
        assert "error" in machines.list()
    assert machines.state.error_code == "folder_gone"
    assert "looked" not in str(machines.state.error)
    write(machines.folder, 1)
    machines.again()
    with machines.at("a"):
        machines.run()


@pytest.mark.parametrize(("seconds", "leaves"), [(-3, True), (3, False)])
def test_a_machine_whose_workers_ended_is_not_waited_for(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, leaves: bool
) -> None:
    machines.take_messages("b")
    end(machines, monkeypatch, seconds)
    with machines.at("a", tmp_path / "nothing"):
        assert ("left" in machines.list()) is leaves


@pytest.mark.parametrize(("seconds", "looks"), [(-3, False), (3, True)])
def test_a_machine_looks_again_after_a_while(machines: Machines, tmp_path: Path, seconds: int, looks: bool) -> None:
    machines.take_messages("a", "b")
    with machines.at("b", tmp_path / "nothing"):
        machines.list()
    write(machines.folder, 1)
    do(machines.pool, "UPDATE folder_refusal SET refused_at = now() - %s - make_interval(secs => %s)", REFUSED, seconds)
    with machines.at("b"):
        assert ("listed" in machines.list()) is looks


def test_a_machine_of_another_queue_is_not_waited_for(machines: Machines, tmp_path: Path) -> None:
    """As the container of the bulk workers beside that of the fast ones."""
    machines.run_worker("b", BULK)
    with machines.at("a", tmp_path / "nothing"):
        assert "error" in machines.list()


# ---- copies


def older_copy(machines: Machines, place: Path) -> Path:
    """A copy that keeps the times of files, as `rsync -a` makes one."""
    write(machines.folder, *range(4))
    shutil.copytree(machines.folder, place, copy_function=shutil.copy2)
    write(machines.folder, 4, 5)
    return place


def older_state(machines: Machines, place: Path) -> Path:
    """The same files without the newest ones, as a disk that was cloned."""
    write(machines.folder, *range(4))
    place.mkdir()
    for file in machines.folder.iterdir():
        os.link(file, place / file.name)
    write(machines.folder, 4, 5)
    return place


def older_state_below(machines: Machines, place: Path) -> Path:
    """The same, where the newest files are in a directory that is new."""
    made = older_state(machines, place)
    write(machines.folder / "new", 6, 7)
    return made


def newer_copy(machines: Machines, place: Path) -> Path:
    """A copy in which somebody has worked."""
    write(machines.folder, *range(4))
    shutil.copytree(machines.folder, place)
    write(place, 8, 9, text="plum")
    return place


def empty(machines: Machines, place: Path) -> Path:
    """The directory on which another machine mounts the folder."""
    write(machines.folder, *range(4))
    place.mkdir()
    return place


COPIES = [older_copy, older_state, older_state_below, newer_copy, empty]


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("make", COPIES)
def test_a_copy_on_another_machine_is_refused(
    machines: Machines, tmp_path: Path, make: Callable[[Machines, Path], Path], trusted: bool
) -> None:
    copy = make(machines, tmp_path / "copy")
    machines.take_messages("a", "b")
    with machines.at("a"):
        machines.run()
    if not trusted:
        distrust(machines)
    before = machines.indexed()
    for _ in range(2):
        machines.again()
        with machines.at("b", copy) as b:
            assert "left" in machines.list()
            assert "a indexed" in str(machines.state.warning)
            # as a grep does
            with pytest.raises(FolderElsewhere, match="on b is not the folder that a indexed"):
                b.source_of(machines.index)
        with machines.at("a"):
            machines.list()
        with machines.at("b", copy):
            assert machines.state.finished_at or "left" in machines.work()
        with machines.at("a"):
            machines.work()
        assert machines.state.status == "ready"
        assert machines.indexed() == before
        do(machines.pool, "DELETE FROM folder_refusal")


def test_a_new_tool_does_not_take_up_a_copy(machines: Machines, tmp_path: Path) -> None:
    copy = older_copy(machines, tmp_path / "copy")
    machines.take_messages("a", "b")
    with machines.at("a"):
        machines.run()
    machines.tool, machines.task = machines.new_tool()
    with machines.at("b", copy):
        assert "left" in machines.list()
    with machines.at("a"):
        machines.run()
    assert len(machines.indexed()) == 6


def test_if_only_the_copy_is_left_the_task_ends_and_says_what_to_do(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = older_copy(machines, tmp_path / "copy")
    with machines.at("a"):
        machines.run()
    machines.again()
    with machines.at("b", copy):
        machines.list()
    assert machines.state.error_code == "folder_elsewhere"
    assert "start the workers of a" in str(machines.state.error)
    assert len(machines.indexed()) == 6
    machines.again(allow_removals=True)
    machines.take_messages("a")
    with machines.at("b", copy):
        # it need not be what the caller means
        assert "left" in machines.list()
        do(machines.pool, "DELETE FROM folder_refusal")
        end(machines, monkeypatch)
        machines.run()
    assert len(machines.indexed()) == 4
    machines.take_messages("a", "b")
    machines.again()
    with machines.at("a"):
        assert "left" in machines.list()


@pytest.mark.parametrize(("seconds", "refused"), [(-3, True), (3, False)])
def test_a_machine_that_is_gone_keeps_no_other_from_its_folder(
    machines: Machines, tmp_path: Path, seconds: int, refused: bool
) -> None:
    copy = newer_copy(machines, tmp_path / "copy")
    with machines.at("a"):
        machines.run()
    do(machines.pool, "UPDATE folder_host SET seen_at = now() - %s - make_interval(secs => %s)", UNSEEN, seconds)
    machines.again()
    with machines.at("b", copy):
        assert ("error" in machines.list()) is refused


# ---- one folder


@pytest.mark.parametrize("kernel", ["one", None])
def test_machines_that_share_a_folder_all_index_it(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, kernel: str | None
) -> None:
    """As containers of one machine, or by a mount."""
    monkeypatch.setattr(local_identity, "_kernel", lambda: kernel)
    machines.take_messages("a", "b")
    write(machines.folder, *range(10))
    with machines.at("a"):
        machines.run()
    rng = random.Random(7)
    for turn in range(6):
        kept = rng.sample(sorted(machines.folder.rglob("*.md")), 3)
        for file in kept[:2]:
            file.unlink()
        write(machines.folder, 20 + turn)
        write(machines.folder / "sub", turn)
        kept[2].write_text("# Edited\n\nin its place\n")
        machines.again()
        with machines.at("ba"[turn % 2]):
            assert machines.list() == {"listed": True}
        with machines.at("ab"[turn % 2]):
            machines.work()
        assert machines.state.status == "ready"
        assert machines.indexed().keys() == {str(f.relative_to(machines.folder)) for f in machines.folder.rglob("*.md")}


def test_a_folder_is_replaced_on_its_machine_as_ever(machines: Machines, tmp_path: Path) -> None:
    machines.take_messages("a", "b")
    write(machines.folder, 1, 2, 3)
    with machines.at("a"):
        machines.run()
        shutil.copytree(machines.folder, tmp_path / "restored")
        shutil.rmtree(machines.folder)
        (tmp_path / "restored").rename(machines.folder)
        write(machines.folder, 4)
        machines.again()
        machines.run()
    assert len(machines.indexed()) == 4


@pytest.mark.parametrize("missing", ["newest", "other"])
def test_the_newest_of_many_files_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Of files beyond the newest some are compared, so that a folder of which few were changed is recognized."""
    monkeypatch.setattr(local_identity, "_kernel", lambda: None)
    place = tmp_path / "folder"
    write(place, *range(NEWEST + OTHERS * 4))
    folder = LocalFolder(str(place), [tmp_path])
    view = view_of(folder)
    files = sorted(place.iterdir(), key=lambda file: file.stat().st_ctime_ns)
    stamps = [
        (f.name.encode(), f"{i.st_size}-{i.st_mtime_ns}-{i.st_ctime_ns}-{i.st_ino}") for f in files for i in [f.stat()]
    ]
    assert is_same(folder, view, stamps)
    # nothing that was seen can be older
    for name in (b"new.md", b"new/new.md", b"0.md"):
        future = [(name, f"1-1-{place.stat().st_ctime_ns + 10**9}-1")]
        assert not is_same(folder, view, stamps + future)
    (files[-1] if missing == "newest" else files[0]).unlink()
    assert is_same(folder, view, stamps)


@pytest.mark.parametrize("stamp", ["", "unlisted", "1-2-3", "1-2-x-4", "-1-2-3-4", "sha256:00"])
def test_other_stamps_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stamp: str) -> None:
    monkeypatch.setattr(local_identity, "_kernel", lambda: None)
    folder = LocalFolder(str(tmp_path), [tmp_path])
    assert is_same(folder, view_of(folder), [(b"x", stamp)])
    (tmp_path / "new").mkdir()
    assert not is_same(folder, view_of(folder)._replace(changed_ns=1), [(b"x", stamp)])


def test_to_containers_of_one_kernel_one_inode_is_one_folder(tmp_path: Path) -> None:
    """Whatever changed in it while another container took over."""
    folder = LocalFolder(str(tmp_path), [tmp_path])
    view = view_of(folder)
    (tmp_path / "new").mkdir()
    later = [(b"x", f"1-1-{10**20}-1")]
    assert is_same(folder, view, later)
    for other in (view._replace(place=None), view._replace(place="other"), view._replace(inode="1")):
        assert not is_same(folder, other, later)


def test_a_folder_that_vanishes_is_gone(machines: Machines, tmp_path: Path) -> None:
    write(machines.folder, 1)
    with machines.at("a"):
        machines.run()
    with machines.at("b", tmp_path / "nothing") as b, pytest.raises(FolderGone):
        b.folders.begin(machines.index, accept=True)


def test_compared_folders_are_compared_again_once_they_change(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(machines.folder, 1, 2)
    machines.take_messages("a", "b")
    with machines.at("a"):
        machines.run()
    # as by a mount of another machine
    monkeypatch.setattr(local_identity, "_kernel", lambda: None)
    looks: list[UUID] = []
    real = local_folders.sample

    def noted(pool: Pool, index_id: UUID) -> Sequence[tuple[bytes, str]]:
        looks.append(index_id)
        return real(pool, index_id)

    monkeypatch.setattr(local_folders, "sample", noted)
    for _ in range(3):
        machines.by_name["b"].folders.check(machines.index)
    assert len(looks) == 1
    write(machines.folder, 3)
    for _ in range(3):
        machines.by_name["b"].folders.check(machines.index)
    assert len(looks) == 2
