"""When a run lists only the paths that were asked for, and when the whole folder; directly on the rows."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest

from schemas.content.source import NodesSource
from schemas.tool import ToolConfig
from tests.integration.database import rows_read
from tests.integration.steps.site import Site, new_site, write
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, StoredContent
from worker.state.index import changes, file_lookup, statuses, tasks, tool_actions, tools
from worker.state.index.files import file_id


@pytest.fixture
def ready(resources: Resources) -> Site:
    site = new_site(resources)
    site.list_folder()
    site.finish_all()
    return site


def ask(site: Site, *paths: str) -> None:
    task = tool_actions.reindex(site.pool, site.tool, full=False, allow_removals=False, paths=paths or None)
    site.task = task or site.task


def open_paths(site: Site) -> tuple[list[str] | None, bool, list[str] | None]:
    """Of the open task: the paths, whether another follows, and the paths of that."""
    ((paths, rerun, rerun_paths),) = site.do(
        "SELECT paths, rerun, rerun_paths FROM search_index_task WHERE id = %s", site.task
    )
    return paths, rerun, rerun_paths


def test_only_what_vanished_at_and_below_the_paths_is_removed(ready: Site) -> None:
    (ready.folder / "0.md").unlink()
    (ready.folder / "1.md").unlink()
    ask(ready, "0.md")
    ready.list_folder()
    ready.finish_all()
    assert ready.outcomes() == {"0.md": "removed", "1.md": "indexed"}


def test_a_path_is_no_prefix_of_a_longer_name(ready: Site) -> None:
    (ready.folder / "0.md").unlink()
    ask(ready, "0.m", "0")
    ready.list_folder()
    ready.finish_all()
    assert set(ready.outcomes().values()) == {"indexed"}


def test_a_run_over_one_path_reads_no_other_file(ready: Site) -> None:
    """However large the folder is, and whether the path was edited, is gone, or is as it was."""
    first = file_id(ready.index.id, b"0.md")
    columns = "index_id, size_bytes, task_id, stamp, code_version, status, live_fingerprint, live_chunks"
    ready.do(
        f"INSERT INTO search_index_file (id, key, path, id_path, {columns})"
        f" SELECT gen_random_uuid(), ('d/' || n)::bytea, 'd/' || n, '/d/' || n, {columns}"
        " FROM search_index_file, generate_series(1, 30000) n WHERE id = %s",
        first,
    )
    ready.do("ANALYZE search_index_file")
    edits: list[Callable[[], None]] = [
        lambda: None,
        partial(write, ready.folder, 0, "edited"),
        (ready.folder / "0.md").unlink,
    ]
    for change in edits:
        change()
        before = rows_read(ready.pool, "search_index_file")
        ask(ready, "0.md")
        ready.list_folder()
        listed = rows_read(ready.pool, "search_index_file")
        ready.finish_all()
        assert (listed - before < 100, rows_read(ready.pool, "search_index_file") - listed < 500) == (True, True)


@pytest.mark.parametrize("length", [510, 511, 512, 513])
def test_the_length_of_a_path_makes_no_difference(resources: Resources, length: int) -> None:
    # the index of keys has their first 512 bytes
    site = new_site(resources)
    above = f"{'d' * 200}/{'d' * 200}"
    asked = f"{above}/{'e' * (length - len(above) - 1)}"
    for directory in (asked, f"{asked}e"):
        (site.folder / directory).mkdir(parents=True)
        (site.folder / directory / "gone.md").write_text("gone")
    site.list_folder()
    site.finish_all()
    for directory in (asked, f"{asked}e"):
        (site.folder / directory / "gone.md").unlink()
    ask(site, asked)
    site.list_folder()
    site.finish_all()
    outcomes = {path: outcome for path, outcome in site.outcomes().items() if path.endswith("gone.md")}
    assert outcomes == {f"{asked}/gone.md": "removed", f"{asked}e/gone.md": "indexed"}


@pytest.mark.parametrize("listed", [False, True])
def test_after_a_run_that_was_stopped_the_whole_folder_is_listed(ready: Site, listed: bool) -> None:
    ready.start()
    if listed:
        ready.list_folder()
    ready.cancel()
    ask(ready, "0.md")
    assert open_paths(ready)[0] is None
    ready.list_folder()
    ready.finish_all()
    ask(ready, "0.md")
    assert open_paths(ready)[0] == ["0.md"]


@pytest.mark.parametrize("status", ["error", "cancelled"])
def test_after_a_run_that_ended_otherwise_than_ready_a_watch_has_the_whole_folder_listed(
    ready: Site, status: str
) -> None:
    ready.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", ready.tool)
    for ended, paths in ((status, None), ("ready", ["0.md"])):
        ready.do("UPDATE search_index_task SET status = %s WHERE id = %s", ended, ready.task)
        changes.note_change(ready.pool, ready.index.id, paths=["0.md"], quiet=timedelta(0))
        started = changes.start(ready.pool, ready.index.id, timedelta(0))
        assert started is not None
        ready.task = started.task_id
        assert open_paths(ready)[0] == paths


def test_while_removals_are_held_the_whole_folder_is_listed(ready: Site) -> None:
    ready.do("UPDATE search_index_task SET held_removals = 1 WHERE id = %s RETURNING 1", ready.task)
    ask(ready, "0.md")
    assert open_paths(ready)[0] is None


@pytest.mark.parametrize(("others", "kept"), [(tasks.MAX_PATHS - 1, True), (tasks.MAX_PATHS, False)])
def test_requests_are_joined_up_to_so_many_paths(ready: Site, others: int, kept: bool) -> None:
    ask(ready, "0.md")
    more = [f"more/{number}" for number in range(others)]
    ask(ready, "1.md")
    ask(ready, *more)
    assert open_paths(ready) == (["0.md"], True, sorted(["1.md", *more]) if kept else None)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(("others", "kept"), [(tasks.MAX_PATHS - 1, True), (tasks.MAX_PATHS, False)])
def test_a_node_that_is_edited_again_and_again_is_one_path(
    archives: Site, begun: bool, others: int, kept: bool
) -> None:
    root = archives.project
    ask(archives, f"{root}-0")
    status = "indexing" if begun else "pending"
    archives.do("UPDATE search_index_task SET status = %s WHERE id = %s RETURNING 1", status, archives.task)

    def edit(*names: str) -> None:
        with archives.pool.connection() as connection:
            tasks.request_rerun_over_nodes(connection, root, [f"/{root}/{name}" for name in names])

    edit("a", "b")
    edit("b", "a", *(f"more-{number}" for number in range(others - 2)))
    edit(f"{root}-0", "b")
    edited = sorted(["a", "b", f"{root}-0", *(f"more-{number}" for number in range(others - 2))])
    paths, rerun, rerun_paths = open_paths(archives)
    assert rerun is begun
    found = rerun_paths if begun else paths
    assert (None if found is None else sorted(found)) == (edited if kept else None)


def test_a_request_for_everything_includes_all_paths(ready: Site) -> None:
    ask(ready, "0.md")
    for paths in ((), ("1.md",)):
        ask(ready, *paths)
        assert open_paths(ready) == (["0.md"], True, None)


def test_a_run_that_follows_has_the_paths_that_were_asked_for_meanwhile(ready: Site) -> None:
    ask(ready, "nowhere.md")
    ask(ready, "1.md")
    ready.list_folder()
    closed = tasks.refresh(ready.pool, ready.task, ready.index.id)
    assert closed is not None
    assert closed.next_task_id is not None
    ready.task = closed.next_task_id
    assert open_paths(ready) == (["1.md"], False, None)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("by", ["watch", "tool"])
def test_who_joins_an_open_run_gets_the_whole_folder(ready: Site, begun: bool, by: str) -> None:
    ask(ready, "0.md")
    if begun:
        ready.list_folder()
        ask(ready, "1.md")
    if by == "tool":
        _, started = tools.create(ready.pool, ready.wanted(), name="", config=ToolConfig())
        assert started is None
    else:
        ready.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s RETURNING 1""", ready.tool)
        changes.note_change(ready.pool, ready.index.id, quiet=timedelta(0))
        assert changes.start(ready.pool, ready.index.id, timedelta(0)) is None
    assert open_paths(ready) == ((["0.md"], True, None) if begun else (None, False, None))


def test_what_the_last_listing_of_everything_said_stays(ready: Site) -> None:
    said = {"ignored": {"git": 3}, "listing_warning": "types matched nothing"}
    ready.do(
        """UPDATE search_index_task SET ignored = '{"git": 3}', listing_warning = %s WHERE id = %s RETURNING 1""",
        said["listing_warning"],
        ready.task,
    )
    ask(ready, "0.md")
    ready.list_folder()
    ready.finish_all()
    status = statuses.newest_of_tool(ready.pool, ready.tool)
    assert status is not None
    assert {name: getattr(status, name) for name in said} == said


def archive_below(site: Site, folder: str) -> None:
    """Put an archive with one file into a folder of nodes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("in/1.md", "# Tulips\n\nThey need water.")
    key, data = f"{site.project}/{folder}", packed.getvalue()
    site.resources.objects.put(key, data)
    node = NewNode(f"{folder}-zip", folder, "a.zip", "zip")
    nodes.insert(site.pool, site.project, node, StoredContent(size=len(data)))
    site.do("UPDATE content_node SET object_key = %s WHERE project_id = %s AND id = %s", key, site.project, node.id)


@pytest.fixture
def archives(resources: Resources) -> Site:
    """A folder of nodes with the folders `n-…-0` and `n-…-1`, which hold an archive each."""
    root = f"n-{uuid4().hex}"
    settings = {"containers": ["archives"]}
    for node, parent in ((root, None), (f"{root}-0", root), (f"{root}-1", root)):
        nodes.insert(resources.pool, root, NewNode(node, parent, f"name {node[-1]}", "folder"), StoredContent())
    site = Site(resources, resources.home, project=root, source=NodesSource(node_id=root), settings=settings)
    for number in range(2):
        archive_below(site, f"{root}-{number}")
    site.list_folder()
    site.finish_all()
    assert site.outcomes() == {f"name {number}/a.zip/in/1.md": "indexed" for number in range(2)}
    return site


def test_members_of_an_archive_go_with_a_folder_above_it(archives: Site) -> None:
    gone = f"{archives.project}-0"
    nodes.delete(archives.pool, archives.project, gone)
    # the name of a member is no id of a node
    ask(archives, gone, "in", "1.md", "a.zip")
    archives.list_folder()
    archives.finish_all()
    assert archives.outcomes() == {"name 0/a.zip/in/1.md": "removed", "name 1/a.zip/in/1.md": "indexed"}


def test_members_of_an_archive_are_found_below_the_folders_above_it(archives: Site) -> None:
    root = archives.project
    archive = f"/{root}/{root}-1/{root}-1-zip"
    expected = {f"/{root}": 2, f"/{root}/{root}-1": 1, archive: 1, f"{archive}/in": 1, f"{archive}/i": 0}
    for id_path, number in expected.items():
        assert len(file_lookup.below(archives.pool, archives.index.id, id_path, of_nodes=True)) == number
