"""Rows and vectors changed behind the service's back are reported exactly, repaired, and paid for only once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from tests.fakes.embeddings import Limits
from tests.integration.stores.ground import WELL, Ground
from tests.service import TOOLS, eventually
from worker.state.index.tools import Index
from worker.tokens.keywords import Keywords
from worker.upkeep.fsck import IndexReport, differences
from worker.vectors import VectorRow


def test_nothing_differs_after_an_ordinary_run(ground: Ground) -> None:
    tool, index = ground.indexed("ordinary")
    assert ground.report(index) == IndexReport(live=18, **WELL, busy=False)
    assert ground.command(tool) == (0, f"{index.namespace}: 18 chunks; no drift\n")


def test_a_task_that_the_sweep_closes_is_followed_up_as_any_other(ground: Ground) -> None:
    tool, index = ground.indexed("swept")
    ground.execute("UPDATE search_index_task SET status = 'indexing', finished_at = NULL WHERE index_id = %s", index.id)
    ground.service.wait(tool)
    ground.follow_up(index)


def test_every_kind_of_drift_is_told_exactly_and_mended_for_nothing(ground: Ground) -> None:
    tool, index = ground.indexed("drifted")
    texts, ids = ground.texts(tool), {number: ground.ids(index, f"{number}.md") for number in range(6)}
    strays = [VectorRow(uuid4(), np.ones(384, dtype=np.float32), {}, Keywords("stray", "stray")) for _ in range(3)]
    with ground.without_sweep():
        ground.forget(index, ids[0])
        ground.store(index).write(index.namespace, 384, upserts=strays)
        ground.execute("DELETE FROM chunk WHERE id = ANY (%s)", [ids[1][2], *ids[2]])
        ground.execute("UPDATE search_index_file SET live_chunks = 7 WHERE index_id = %s AND path = '3.md'", index.id)
        ground.execute("UPDATE chunk SET live = false WHERE id = %s", ids[4][0])
        ground.execute(
            "INSERT INTO chunk_tombstone (id, index_id, created_at) VALUES (%s, %s, now() - interval '1 day')",
            *(strays[0].id, index.id),
        )
        # a row that is not live keeps its vector from being a stray, and so does a tombstone
        wrong = {"missing": 3, "stray": 6, "miscounted": 3, "bare": 1, "unfinished": 1, "overdue": 1}
        assert ground.differs(index) == wrong
        code, out = ground.command(tool)
        assert (code, out.startswith(f"{index.namespace}: 13 chunks; 3 chunks without a vector; 6 vec")) == (1, True)
        well, out = ground.fsck(None, repair=True)
        assert (well, "deleted 7 vectors" in out, "at most 0 texts" in out) == (True, True, True), out
        left = ground.report(index)
        assert (left.busy, left.drift) == (True, {"missing": 3})
    status = ground.settle(tool, index)
    assert (status["total_chunks"], status["indexed_files"], status["failed_files"]) == (18, 6, 0)
    assert ground.texts(tool) == texts
    assert ground.paid() == 0


def test_what_differs_and_its_repair_are_printed_as_json(ground: Ground) -> None:
    tool, index = ground.indexed("printed")
    well = {"namespace": index.namespace, "what": "chunks", "ok": True, "live": 18, "drift": {}, "busy": False}
    well |= {"repaired": None, "message": None}
    code, out = ground.command(tool, "--json")
    assert (code, json.loads(out)) == (0, {"items": [well]})
    with ground.without_sweep():
        ground.forget(index, ground.ids(index, "0.md"))
        code, out = ground.command(tool, "--json")
        assert (code, json.loads(out)) == (1, {"items": [{**well, "ok": False, "drift": {"missing": 3}}]})
        code, out = ground.command(tool, "--repair", "--json")
        [item] = json.loads(out)["items"]
        assert (code, item["ok"], item["drift"], item["repaired"]["lost"]) == (0, True, {"missing": 3}, 3)
        assert item["repaired"]["task_id"] == ground.service.get(f"{TOOLS}/{tool}/status")["task_id"]
        # the task of the repair must end before another one begins
        code, out = ground.command(tool, "--repair", "--json")
        [item] = json.loads(out)["items"]
        assert (code, item["ok"], item["busy"], item["repaired"]) == (1, False, True, None)
        assert "a task is working on this index" in item["message"]
    ground.settle(tool, index)


def test_ranges_of_any_size_show_the_same(ground: Ground) -> None:
    _, index = ground.indexed("ranges")
    ids = sorted(ground.ids(index))
    lost = [*ids[:2], *ids[7:11], ids[-1]]
    strays = sorted([UUID(int=0), UUID(int=2**128 - 1), *(uuid4() for _ in range(40))])
    ground.forget(index, lost)
    rows = [VectorRow(id_, np.ones(384, dtype=np.float32), {}, Keywords("stray", "stray")) for id_ in strays]
    ground.store(index).write(index.namespace, 384, upserts=rows)
    for page in (1, 2, 5, 18, 100):
        found = list(differences(ground.resources.pool, ground.store(index), index, page))
        assert [id_ for missing, _ in found for id_ in missing] == lost, page
        assert [id_ for _, stray in found for id_ in stray] == strays, page
        assert len(found) >= 53 // page


def test_nothing_seems_to_differ_while_work_goes_on(ground: Ground) -> None:
    tool, index = ground.indexed("moving")
    folder = ground.root / "moving"
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# {number}\n\nAnother text.\n\n# again\n\nAnd one more.\n")
    (folder / "3.md").unlink()
    ground.provider.delay = 0.2
    ground.service.local_tool(folder)
    reports = [ground.report(index)]
    while reports[-1].busy:
        reports.append(ground.report(index))
    ground.provider.delay = 0
    assert (reports[0].busy, len(reports) > 2) == (True, True)
    assert [report.drift for report in reports if report.drift] == []
    assert (reports[-1].live, ground.service.wait(tool)["total_chunks"]) == (12, 12)


def test_a_repair_after_a_cancelled_run_is_left_to_the_next_one(ground: Ground) -> None:
    tool, index = ground.indexed("cancelled")
    ground.forget(index, ground.ids(index)[:5])
    end = "UPDATE search_index_task SET status = %s WHERE index_id = %s RETURNING 1"
    ground.service.rows(end, "cancelled", index.id)
    code, out = ground.command(tool, "--repair")
    assert (code, "retry or reindex the tool" in out) == (1, True), out
    ground.service.rows(end, "ready", index.id)
    code, out = ground.command(tool, "--repair")
    assert (code, "finishes the repair" in out) == (0, True), out
    ground.settle(tool, index)


def test_only_what_the_cache_lost_too_is_paid_again(ground: Ground) -> None:
    tool, index = ground.indexed("unpaid")
    texts, ids = ground.texts(tool), ground.ids(index)
    ground.forget(index, ids[:5])
    ground.drop_cache(ids[3:])
    code, out = ground.command(tool, "--repair")
    assert (code, "5 vectors to be written again: at most 2 texts" in out) == (0, True), out
    status = ground.settle(tool, index)
    hashes = ground.service.rows("SELECT substr(content_hash, 8) FROM chunk WHERE id = ANY (%s)", ids[3:5])
    paid = ground.provider.audit
    assert paid.texts == Counter(hash_ for (hash_,) in hashes), f"{paid.requests}\n{ground.service.logs()}"
    # the rows are the old ones, and their files were not read again
    assert (ground.ids(index), ground.texts(tool)) == (ids, texts)
    assert status["total_chunks"] == 18


def test_a_lost_text_that_is_too_long_for_the_model_by_now_is_cut(ground: Ground) -> None:
    folder = ground.root / "shrunk"
    folder.mkdir()
    words = [f"shrunk{number}" for number in range(20)]
    (folder / "long.md").write_text(f"# Long\n\n{' '.join(words)}\n\n# Short\n\nA short section.\n")
    tool = ground.service.local_tool(folder, config={"embedding_model": "openai/shrinks"})
    before = ground.service.wait(tool)
    index = ground.index(tool)
    ground.follow_up(index)
    long, short = ground.ids(index)
    ground.forget(index, [long])
    ground.drop_cache([long])
    ground.provider.reset()
    ground.provider.limits = Limits(most_tokens=32)
    code, out = ground.command(tool, "--repair")
    assert (code, "1 vector to be written again" in out) == (0, True), out
    status = ground.settle(tool, index)
    assert (status["indexed_files"], status["failed_files"]) == (1, 0)
    assert "chunk_size" in status["warning"]
    *halves, kept = ground.ids(index)
    assert (before["total_chunks"], len(halves) > 1, kept) == (2, True, short)
    assert " ".join(text for _, _, text, *_ in ground.texts(tool)[:-1]).split()[-20:] == words
    assert {hit["file_path"] for hit in ground.service.query(tool, words[-1], mode="keyword")} == {"long.md"}
    ground.provider.reset()


def test_a_repair_waits_for_a_running_task(ground: Ground) -> None:
    tool, index = ground.indexed("busy")
    ground.forget(index, ground.ids(index)[:2])
    with ground.without_sweep():
        ground.execute(
            "INSERT INTO search_index_task (id, tool_id, index_id, kind) VALUES (%s, %s, %s, 'reindex')",
            *(uuid4(), tool, index.id),
        )
        well, out = ground.fsck(tool, repair=True)
        assert (well, "2 chunks without a vector; a task is open" in out, "not repaired" in out) == (False, True, True)
    ground.settle(tool, index)


def test_a_namespace_deleted_before_a_task_is_rebuilt_by_it(ground: Ground) -> None:
    tool, index = ground.indexed("dropped")
    texts, ids = ground.texts(tool), ground.ids(index)
    ground.store(index).drop(index.namespace)
    ground.service.local_tool(ground.root / "dropped")
    status = ground.settle(tool, index)
    assert (status["total_chunks"], status["indexed_files"], ground.paid()) == (18, 6, 0)
    assert (ground.texts(tool), ground.stored(index)) == (texts, sorted(ids))


def test_files_change_while_their_vectors_are_lost(ground: Ground) -> None:
    tool, index = ground.indexed("changed")
    folder = ground.root / "changed"
    ground.store(index).drop(index.namespace)
    (folder / "0.md").write_text((folder / "0.md").read_text() + "# more\n\nA further section.\n")
    (folder / "1.md").touch()
    (folder / "2.md").unlink()
    (folder / "3.md").rename(folder / "moved.md")
    ground.service.local_tool(folder)
    status = ground.settle(tool, index)
    assert (status["total_chunks"], status["indexed_files"], status["removed_files"]) == (16, 5, 2)
    assert ground.paid() == 1
    found = ground.service.query(tool, "apples changed file 3", mode="vector", top_k=50)
    assert {hit["file_path"] for hit in found} == {"0.md", "1.md", "4.md", "5.md", "moved.md"}
    assert len(found) == 16


def answered(ground: Ground, tool: str, **asked: Any) -> tuple[list[str], bool | None, int]:
    """A query's notes, whether its hit comes from the index (None: no hit), and the number of searched files."""
    found = ground.service.post(f"{TOOLS}/{tool}/query", {"query": "apples", **asked}, 200)
    embedded = {hit["embedded"] for hit in found["results"]}
    notes = [note["code"] for note in found["notes"]]
    return notes, embedded.pop() if embedded else None, found["coverage"]["indexed_files"]


def test_a_query_notices_and_the_rest_happens_by_itself(ground: Ground) -> None:
    tool, index = ground.indexed("asked")
    ground.store(index).drop(index.namespace)
    # an index is compared at most once a minute
    ground.execute("UPDATE search_index SET checked_at = now() - interval '2 minutes' WHERE id = %s", index.id)
    with ground.without_sweep():
        in_postgres = index.keyword_index == "postgres"
        assert answered(ground, tool, mode="vector") == (["vectors_missing"], False, 0)
        # keywords in Postgres keep answering; otherwise the lines of the folder do
        expected = (True, 6) if in_postgres else (False, 0)
        assert answered(ground, tool, mode="hybrid") == (["vectors_missing"], *expected)
        assert answered(ground, tool, mode="keyword") == ([] if in_postgres else ["vectors_missing"], *expected)
        assert answered(ground, tool, mode="vector", filters={"path": "*.md"}) == (["vectors_missing"], None, 0)
        # as while they are being written again
        ground.execute("UPDATE search_index_file SET lost = true, status = 'pending' WHERE index_id = %s", index.id)
        ground.execute(
            "UPDATE search_index_task SET indexed_files = 0, searchable_files = 0 WHERE index_id = %s", index.id
        )
        assert answered(ground, tool, mode="keyword")[2] == expected[1]
        ground.execute("UPDATE search_index_file SET lost = false, status = 'indexed' WHERE index_id = %s", index.id)
        ground.execute("UPDATE search_index_task SET indexed_files = 6 WHERE index_id = %s", index.id)
    eventually(lambda: len(ground.stored(index)) == 18, 30, ground.service.logs)
    ground.settle(tool, index)
    # the query itself
    assert ground.paid() == 1
    assert answered(ground, tool, mode="vector") == ([], True, 6)
    tasks = ground.service.get(f"{TOOLS}/{tool}/tasks")["items"]
    assert [task["kind"] for task in tasks] == ["retry", "create"]


def test_a_namespace_deleted_during_a_task_is_noticed_at_its_end(ground: Ground) -> None:
    tool, index = ground.indexed("midway")
    (ground.root / "midway" / "new.md").write_text("# new\n\nWithout this the task would write nothing.\n")
    ground.provider.delay = 1.0
    ground.service.local_tool(ground.root / "midway")
    eventually(lambda: ground.provider.audit.in_flight > 0, 20, ground.service.logs)
    ground.store(index).drop(index.namespace)
    ground.provider.delay = 0
    # the store creates a namespace for every writer, so it exists again with one row of nineteen
    eventually(lambda: len(ground.stored(index)) == 19, 30, ground.service.logs)
    ground.settle(tool, index)
    assert ground.paid() == 1


def test_what_is_left_of_a_namespace_keeps_no_task_waiting(ground: Ground) -> None:
    """Somebody deletes a directory of LanceDB during a commit."""
    if ground.resources.settings.vector_store != "lancedb":
        pytest.skip("run over LanceDB, which alone keeps a directory")
    tool, index = ground.indexed("torn")
    shutil.rmtree(ground.resources.home / "lancedb" / f"{index.namespace}.lance" / "data")
    (ground.root / "torn" / "0.md").write_text("# new\n\nIts three old chunks are to be deleted.\n")
    # the first reader drops the table and is told to try again: this should be the task, not the test
    # the store trusts a version that it has seen for a minute
    ground.service.wait(ground.service.local_tool(ground.root / "torn"), seconds=180)
    eventually(lambda: len(ground.stored(index)) == 16, 30, ground.service.logs)
    ground.settle(tool, index)
    assert ground.paid() == 1


#: Tables of one index, with the columns that select their rows. Tables that refer to others come first.
ROWS_OF_INDEX = {
    "symbol": "index_id",
    "symbol_use": "index_id",
    "chunk": "index_id",
    "chunk_draft": "index_id",
    "chunk_tombstone": "index_id",
    "search_index_file": "index_id",
    "search_index_task": "index_id",
}


def save_rows(ground: Ground, index: Index) -> None:
    """Copy the rows, as a standby that is behind has them."""
    ground.execute("CREATE SCHEMA behind")
    for table, column in ROWS_OF_INDEX.items():
        ground.execute(f"CREATE TABLE behind.{table} AS SELECT * FROM {table} WHERE {column} = '{index.id}'")
    ground.execute("CREATE TABLE behind.embedding_cache AS SELECT * FROM embedding_cache")
    ground.execute(f"CREATE TABLE behind.search_index AS SELECT * FROM search_index WHERE id = '{index.id}'")


def fail_over(ground: Ground, index: Index) -> None:
    """Replace the present rows with the copied ones."""
    with ground.resources.pool.connection() as connection:
        for table, column in ROWS_OF_INDEX.items():
            connection.execute(f"DELETE FROM {table} WHERE {column} = %s".encode(), [index.id])
        connection.execute("DELETE FROM embedding_cache")
        for table in [*reversed(ROWS_OF_INDEX), "embedding_cache"]:
            connection.execute(f"INSERT INTO {table} SELECT * FROM behind.{table}".encode())
        connection.execute("UPDATE search_index i SET epoch = b.epoch FROM behind.search_index b WHERE b.id = i.id")
        connection.execute("DROP SCHEMA behind CASCADE")


def test_rows_of_a_standby_that_was_behind_are_mended(ground: Ground) -> None:
    tool, index = ground.indexed("behind")
    folder, texts = ground.root / "behind", ground.texts(tool)
    with ground.without_sweep():
        save_rows(ground, index)
    (folder / "0.md").write_text((folder / "0.md").read_text().replace("About apples", "No longer about apples"))
    (folder / "1.md").unlink()
    (folder / "3.md").rename(folder / "moved.md")
    (folder / "new.md").write_text("# new\n\nA text that the standby never heard of.\n")
    ground.service.local_tool(folder)
    ground.settle(tool, index)
    ground.follow_up(index)
    newer = ground.texts(tool)
    with ground.without_sweep():
        fail_over(ground, index)
        # the vectors of edited, deleted and renamed text are gone, and their successors have no rows
        assert ground.differs(index) == {"missing": 1 + 3 + 3, "stray": 1 + 3 + 1}
        code, out = ground.command("--all", "--repair")
        assert (code, "deleted 5 vectors" in out, "7 vectors to be written again" in out) == (0, True, True), out
    ground.settle(tool, index)
    assert ground.texts(tool) == texts
    found = ground.service.query(tool, "apples behind file 1", mode="vector", top_k=50)
    assert (len(found), "1.md" in {hit["file_path"] for hit in found}) == (18, True)
    # the folder provides the rest
    ground.service.local_tool(folder)
    ground.settle(tool, index)
    assert ground.texts(tool) == newer


def test_what_fsck_cannot_do(ground: Ground) -> None:
    assert ground.command()[0] == 2
    code, out = ground.command(str(uuid4()))
    assert (code, "There is no search tool" in out) == (2, True)
