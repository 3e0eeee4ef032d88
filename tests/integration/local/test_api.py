"""The HTTP contract over the real service: tools, tasks, files, texts, queries, nodes, projects."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from api.search.text.snippets import grouped, with_neighbours
from schemas.queries.search import Hit
from tests.service import PROJECT, TOOLS, Service, checked, eventually
from worker.settings import LOCAL_MODEL
from worker.state.pool import open_pool

NODES = f"/api/projects/{PROJECT}/nodes"
GUIDE = "# Cooking\n\nBoil the pasta in salted water.\n\n# Cleaning\n\nWash the dishes with hot water and soap.\n"
SCRIPT = "def boil(pasta):\n    return pasta + ' in salted water'\n"
MENU = {
    "dishes": {"pasta": "boil the pasta in plenty of salted water for exactly nine minutes and drain it at once"},
    "drinks": {"tea": "pour water that has cooled to eighty degrees over green leaves and wait for two minutes"},
}
FILES = {"guide.md": GUIDE, "sub/boil.py": SCRIPT, "sub/menu.json": json.dumps(MENU, indent=2), "b.mp3": "ID3"}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    """A tool over three files that are read and one that is not."""
    made = running.local_tool(write(root / "kitchen", FILES), name="kitchen")
    running.wait(made)
    return made


def test_a_new_tool_shows_everything_of_the_contract(running: Service, tool: str, root: Path) -> None:
    shown = running.get(f"{TOOLS}/{tool}")
    assert (shown["tool_id"], shown["project_id"], shown["name"], shown["node_id"]) == (tool, PROJECT, "kitchen", None)
    assert shown["source"] == {"kind": "local", "path": str(root / "kitchen")}
    assert (shown["index"]["model"], shown["index"]["dimensions"], shown["task"]) == (LOCAL_MODEL, 384, "ready")
    assert shown["namespace"].startswith(f"project_{PROJECT}_folder_h.")
    assert running.rows("SELECT count(*) FROM search_tool WHERE id = %s", tool) == [(1,)]


def test_no_other_user_may_read_what_is_kept(running: Service, tool: str) -> None:
    running.node("kept.md", "markdown", "# Kept\n\nSomething.\n")
    kept = [path for path in running.home.rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    assert kept == []
    assert {path.suffix for path in running.home.rglob("*")} >= {".lance", ".log"}


def test_tools_are_listed_by_pages_oldest_first(running: Service, root: Path) -> None:
    folder = write(root / "listed", {"a.txt": "listed"})
    made = [running.local_tool(folder, project="listed", name=f"tool {number}") for number in range(5)]
    running.local_tool(folder, project="another")
    # equally old ones come by their ids
    running.rows("UPDATE search_tool SET created_at = now() WHERE id = ANY (%s)", made[1:])
    running.rows("UPDATE search_tool SET created_at = now() WHERE id = %s", made[4])
    expected = [made[0], *sorted(made[1:4]), made[4]]
    for limit in (1, 2, 3, 5, 6):
        for path in (TOOLS, f"{TOOLS}/statuses"):
            assert [item["tool_id"] for item in running.pages(path, project_id="listed", limit=limit)] == expected
    assert running.get(TOOLS, project_id="nobody") == {"items": [], "next_cursor": None}


def test_the_status_is_the_row_of_the_task(running: Service, tool: str) -> None:
    status = running.status(tool)
    computed = {"tool_id", "task_id", "namespace", "eta_seconds", "words_eta_seconds"}
    columns = [name for name in status if name not in computed]
    ((row,),) = running.rows("SELECT to_jsonb(t) FROM search_index_task t WHERE id = %s", status["task_id"])
    times = {"created_at", "started_at", "searchable_at", "finished_at"}
    assert {name: row[name] for name in columns if name not in times} == {
        name: status[name] for name in columns if name not in times
    }
    assert (status["total_files"], status["indexed_files"], status["skipped_files"]) == (4, 3, 1)
    assert status["created_at"] <= status["started_at"] <= status["searchable_at"] <= status["finished_at"]
    assert (status["progress"], status["eta_seconds"], status["listing"], status["warning"]) == (1, None, False, None)


def test_tasks_are_listed_newest_first(running: Service, root: Path) -> None:
    folder = write(root / "history", {"a.txt": "a history of runs"})
    tools = []
    for _ in range(3):
        tools.append(running.local_tool(folder))
        running.wait(tools[-1])
    tasks = running.pages(f"{TOOLS}/{tools[0]}/tasks", limit=2)
    assert running.pages(f"{TOOLS}/{tools[0]}/tasks", limit=3) == tasks
    assert [task["kind"] for task in tasks] == ["reindex", "reindex", "create"]
    assert tasks == sorted(tasks, key=lambda task: str(task["created_at"]), reverse=True)
    assert tasks[0] == running.status(tools[0])
    # those that began at the same time come by their ids
    ids = [task["task_id"] for task in tasks]
    running.rows("UPDATE search_index_task SET created_at = now() WHERE id = ANY (%s)", ids)
    for limit in (1, 2, 3, 4):
        listed = running.pages(f"{TOOLS}/{tools[0]}/tasks", limit=limit)
        assert [task["task_id"] for task in listed] == sorted(ids, reverse=True)


def test_files_are_listed_filtered_and_paged(running: Service, tool: str) -> None:
    paths = [item["file_path"] for item in running.pages(f"{TOOLS}/{tool}/files", limit=1)]
    assert paths == sorted(FILES, key=str.encode)
    assert [file["file_path"] for file in running.files(tool, q="SUB/")] == ["sub/boil.py", "sub/menu.json"]
    (skipped,) = running.files(tool, status="skipped")
    assert (skipped["file_path"], skipped["reason"], skipped["chunks"]) == ("b.mp3", "unsupported_type", 0)
    assert "Audio" in skipped["message"]
    (script,) = running.files(tool, q="boil.py")
    assert (script["file_name"], script["file_type"], script["file_id_path"]) == ("boil.py", "code", "/sub/boil.py")
    assert (script["file_node_id"], script["size"], script["stale"]) == (script["file_id"], len(SCRIPT), False)
    assert script["tokens"] > 0
    assert {"read", "parse", "chunk", "embed", "write"} <= script["timings"].keys()


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_files_with_equal_paths_come_by_id(running: Service, twins: str, limit: int) -> None:
    files = running.pages(f"{TOOLS}/{twins}/files", limit=limit, q="b.M")
    assert [file["file_path"] for file in files] == ["B.md"] * 3
    assert [file["file_id"] for file in files] == sorted({file["file_id"] for file in files})


@pytest.fixture(scope="module")
def twins(running: Service) -> str:
    """A tool over three nodes of one name."""
    folder = running.node("twins", "folder")
    for number in range(3):
        running.node("B.md", "markdown", f"twin {number}", parent_id=folder)
    tool = running.tool(node_id=folder)
    running.wait(tool)
    return tool


def text_of(running: Service, tool: str, name: str, **params: Any) -> dict[str, Any]:
    (file,) = running.files(tool, q=name)
    return running.get(f"{TOOLS}/{tool}/files/{file['file_id']}", **params)


@pytest.mark.parametrize("name", ["guide.md", "sub/boil.py", "sub/menu.json"])
def test_a_files_text_is_given_back_exactly(running: Service, tool: str, name: str) -> None:
    text = text_of(running, tool, name)
    assert (text["text"], text["start_line"], text["start_char"], text["end_char"]) == (
        FILES[name],
        1,
        0,
        len(FILES[name]),
    )


def test_a_part_of_a_file_by_lines_and_by_pointer(running: Service, tool: str) -> None:
    assert text_of(running, tool, "guide.md", start_line=3, end_line=3)["text"] == "Boil the pasta in salted water.\n"
    assert text_of(running, tool, "guide.md", start_line=7)["text"].startswith("Wash")
    part = text_of(running, tool, "menu.json", pointer="/drinks")
    assert json.loads("{" + part["text"] + "}") == {"drinks": MENU["drinks"]}
    (file,) = running.files(tool, q="menu.json")
    path = f"{TOOLS}/{tool}/files/{file['file_id']}"
    for params, status in (({"pointer": "/none/x"}, 404), ({"start_line": 99}, 404), ({"start_line": 0}, 422)):
        assert running.client.get(path, params=params).status_code == status
    both = running.client.get(path, params={"pointer": "/drinks", "start_line": "1"})
    assert (both.status_code, both.json()["code"]) == (422, "invalid_request")


LONG = (
    "\n\n\n"
    + "".join(f"line {n} tells of {n * 7919 % 1009} things\n" + "\n" * (n % 40 == 0) for n in range(900))
    + "\n"
)
BOOK = {"long.txt": LONG, "small.json": '{"a": {"b": [1, 2]}, "c": null}\n', "blank.txt": "first\n\n\n"}


@pytest.fixture(scope="module")
def book(running: Service, root: Path) -> str:
    """A tool over one file with many chunks, and some files with one."""
    folder = write(root / "book", BOOK)
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    made = running.local_tool(folder)
    running.wait(made)
    return made


@pytest.mark.parametrize(
    ("first", "last"),
    [(1, 1), (1, 3), (4, 4), (3, 6), (44, 48), (250, 700), (900, None), (None, 2), (925, 927), (2, 10**12)],
)
def test_any_lines_of_a_long_file_are_given_exactly(
    running: Service, book: str, first: int | None, last: int | None
) -> None:
    params = {name: value for name, value in (("start_line", first), ("end_line", last)) if value is not None}
    lines = LONG.removesuffix("\n").split("\n")
    start, end = (first or 1) - 1, min(last or len(lines), len(lines))
    text = text_of(running, book, "long.txt", **params)
    assert text["text"].removesuffix("\n").split("\n") == lines[start:end]
    assert (text["start_line"], text["end_line"]) == (start + 1, end)
    assert LONG[text["start_char"] : text["end_char"]] == text["text"]


def test_lines_beyond_the_end_are_told_how_many_there_are(running: Service, book: str) -> None:
    for name, count in (("long.txt", LONG.count("\n")), ("blank.txt", 3), ("crlf.txt", 2)):
        (file,) = running.files(book, q=name)
        path = f"{TOOLS}/{book}/files/{file['file_id']}"
        assert running.get(path, start_line=count)["end_line"] == count
        problem = checked(running.client.get(path, params={"start_line": count + 1}), 404)
        assert f"{count} lines" in problem["detail"]
    assert text_of(running, book, "crlf.txt", start_line=2)["text"] == "two\r\n"


def test_a_pointer_is_exact_wherever_chunks_end(running: Service, book: str) -> None:
    assert text_of(running, book, "small.json", pointer="/a/b/1")["text"] == "2"
    assert text_of(running, book, "small.json", pointer="/a")["text"] == '"a": {"b": [1, 2]}'
    for name, pointer in (("small.json", "/a/x"), ("small.json", "a"), ("long.txt", "/a"), ("long.txt", "\0")):
        (file,) = running.files(book, q=name)
        checked(running.client.get(f"{TOOLS}/{book}/files/{file['file_id']}", params={"pointer": pointer}), 404)


def chunk_path(tool: str, chunk_id: str) -> str:
    return f"{TOOLS}/{tool}/chunks/{chunk_id}"


def test_chunks_are_paged_through_from_a_hit(running: Service, book: str) -> None:
    hit = running.query(book, "line 500 tells of things", filters={"path": "long.txt"})[0]
    around = running.get(chunk_path(book, hit["chunk_id"]), before=100, after=100)
    indexes = [piece["chunk_index"] for piece in [*around["before"], around["chunk"], *around["after"]]]
    assert indexes == list(range(hit["total_chunks"]))
    assert len(indexes) > 5
    assert around["chunk"] == {name: hit.get(name) for name in around["chunk"]}
    middle = around["before"][-1] if around["before"] else around["after"][0]
    near = running.get(chunk_path(book, middle["chunk_id"]), before=1, after=2)
    place = middle["chunk_index"]
    assert [piece["chunk_index"] for piece in near["before"]] == [n for n in [place - 1] if n >= 0]
    assert [piece["chunk_index"] for piece in near["after"]] == [n for n in (place + 1, place + 2) if n in indexes]
    alone = running.get(chunk_path(book, hit["chunk_id"]))
    assert (alone["before"], alone["after"]) == ([], [])


def test_a_chunk_that_is_not_this_tools_is_not_found(running: Service, tool: str, book: str) -> None:
    hit = running.query(book, "line 1", mode="keyword")[0]
    for chunk_id in (hit["chunk_id"], PROJECT, hit["file_id"]):
        problem = checked(running.client.get(chunk_path(tool, chunk_id)), 404)
        assert "chunk" in problem["detail"]
    checked(running.client.get(chunk_path(book, hit["chunk_id"]), params={"before": 101}), 422)
    running.rows("UPDATE chunk SET live = false WHERE id = %s RETURNING id", hit["chunk_id"])
    checked(running.client.get(chunk_path(book, hit["chunk_id"])), 404)
    running.rows("UPDATE chunk SET live = true WHERE id = %s RETURNING id", hit["chunk_id"])


def test_hits_are_shown_with_their_neighbours(running: Service, book: str) -> None:
    (index,) = running.rows("SELECT index_id FROM search_tool WHERE id = %s", book)[0]
    hits = [Hit(**hit) for hit in running.query(book, "line 500 tells of things", filters={"path": "long.txt"})]
    (shown,) = grouped(hits[:3])
    with closing(open_pool(running.database_url)) as pool:
        *single, file, none = with_neighbours(
            pool, index, [*hits, shown, hits[0].model_copy(update={"whole": True})], 2, 1
        )
        assert with_neighbours(pool, index, [], 2, 1) == []
    total = hits[0].total_chunks
    for hit in single:
        place = hit.chunk_index
        assert [p.chunk_index for p in hit.before or []] == list(range(max(0, place - 2), place))
        assert [p.chunk_index for p in hit.after or []] == list(range(place + 1, min(total, place + 2)))
    first, last = (at(piece.chunk_index for piece in file.pieces or []) for at in (min, max))
    assert [p.chunk_index for p in file.before or []] == list(range(max(0, first - 2), first))
    assert [p.chunk_index for p in file.after or []] == list(range(last + 1, min(total, last + 2)))
    assert (none.before, none.after) == ([], [])


@pytest.mark.parametrize("change", [{"chunk_id": UUID(int=0)}, {"chunk_index": 3}, {"start_char": 0}])
def test_a_file_that_changes_meanwhile_has_no_neighbours_of_another_text(
    running: Service, book: str, change: dict[str, Any]
) -> None:
    (index,) = running.rows("SELECT index_id FROM search_tool WHERE id = %s", book)[0]
    hits = [
        Hit(**hit) for hit in running.query(book, "line 500 tells of things", filters={"path": "long.txt"}, top_k=3)
    ]
    changed = hits[-1].model_copy(update=change)
    with closing(open_pool(running.database_url)) as pool:
        shown = with_neighbours(pool, index, [*hits[:-1], changed], 2, 1)
    assert [(hit.before, hit.after) for hit in shown] == [([], [])] * len(hits)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_scores_fall_from_at_most_one_and_top_k_bounds(running: Service, tool: str, mode: str) -> None:
    hits = running.query(tool, "pasta in salted water", mode=mode)
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len({hit["chunk_id"] for hit in hits}) == len(hits) > 2
    assert running.query(tool, "pasta in salted water", mode=mode, top_k=2) == hits[:2]
    assert all((hit["distance"] is None) == (mode == "keyword") for hit in hits)


def test_the_most_hits_that_may_be_asked_for(running: Service, tool: str) -> None:
    chunks = running.status(tool)["total_chunks"]
    assert len(running.query(tool, "water", mode="vector", top_k=10_000)) == chunks


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"path": "sub/**"}, {"sub/boil.py", "sub/menu.json"}),
    ({"path": "*.md"}, {"guide.md"}),
    ({"types": ["json", "markdown"]}, {"guide.md", "sub/menu.json"}),
    ({"languages": ["python"]}, {"sub/boil.py"}),
    ({"json_pointer": "/dishes"}, {"sub/menu.json"}),
    ({"level": 0, "path": "guide.*"}, {"guide.md"}),
    ({"types": ["code"], "path": "sub/"}, {"sub/boil.py"}),
    ({"types": ["Code"], "languages": ["Python"], "path": "./sub/"}, {"sub/boil.py"}),
    ({"types": ["py", "markdown"]}, {"sub/boil.py", "guide.md"}),
    ({"types": [".JSON"]}, {"sub/menu.json"}),
    ({"types": ["python", "md"], "path": "!*.md"}, {"sub/boil.py"}),
]


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize(("filters", "expected"), FILTERS)
def test_each_filter_narrows(
    running: Service, tool: str, mode: str, filters: dict[str, Any], expected: set[str]
) -> None:
    hits = running.query(tool, "pasta water", mode=mode, filters=filters)
    assert {hit["file_path"] for hit in hits} == expected


def test_a_file_is_named_by_its_id(running: Service, tool: str) -> None:
    (guide,) = running.files(tool, q="guide")
    hits = running.query(tool, "water", filters={"file_ids": [guide["file_id"], "nobody"]})
    assert {hit["file_path"] for hit in hits} == {"guide.md"}


def test_a_pointer_filter_ends_at_a_whole_key(running: Service, tool: str) -> None:
    refused = running.client.post(
        f"{TOOLS}/{tool}/query", json={"query": "water", "filters": {"json_pointer": "/dish"}}
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "no_such_files")


def test_an_answer_tells_its_coverage(running: Service, tool: str) -> None:
    answer = running.post(f"{TOOLS}/{tool}/query", {"query": "  pasta  ", "top_k": 1}, 200)
    assert (answer["query"], answer["mode"], answer["total_results"]) == ("pasta", "hybrid", 1)
    assert answer["coverage"] == {"indexed_files": 3, "total_files": 4, "stale_files": None, "vector_share": 1.0}
    assert answer["took_ms"] > 0


def test_words_that_nothing_holds_find_nothing(running: Service, tool: str) -> None:
    assert running.query(tool, "xylophone", mode="keyword") == []
    assert running.query(tool, "?!", mode="keyword") == []


def test_nodes_are_made_read_changed_and_deleted(running: Service) -> None:
    folder = running.node("docs", "folder")
    text = "# Grüße\n\n" + "long \N{SNOWMAN} line\n" * 10_000
    note = running.node("a.md", "markdown", text, parent_id=folder)
    data = running.node("d.json", "json", {"b": 1, "a": [None, "\u0000"]}, parent_id=folder)
    shown = running.get(f"{NODES}/{note}")
    assert (shown["content"], shown["size"], shown["version"]) == (text, len(text.encode()), 1)
    assert (shown["id_path"], shown["parent_id"], shown["type"]) == (f"/{folder}/{note}", folder, "markdown")
    assert list(running.get(f"{NODES}/{data}")["content"].items()) == [("b", 1), ("a", [None, "\u0000"])]
    changed = running.client.patch(f"{NODES}/{note}", json={"content": "short", "name": "b.md"}).json()
    assert (changed["content"], changed["name"], changed["version"]) == ("short", "b.md", 2)
    assert running.client.delete(f"{NODES}/{folder}").status_code == 202
    for gone in (folder, note, data):
        assert running.client.get(f"{NODES}/{gone}").status_code == 404


def test_a_change_of_a_node_is_made_whole_or_not_at_all(running: Service) -> None:
    folder, note = running.node("docs", "folder"), running.node("a.md", "markdown", "text")
    for node, change in (
        (folder, {"name": "new", "content": "text"}),
        (note, {"name": "new.md", "content": {"no": "text"}}),
        (note, {"parent_id": folder, "content": ["no text"]}),
        (note, {"parent_id": "nowhere", "content": "new text"}),
    ):
        before = running.get(f"{NODES}/{node}")
        assert running.client.patch(f"{NODES}/{node}", json=change).status_code in {404, 422}
        assert running.get(f"{NODES}/{node}") == before
    changed = running.client.patch(
        f"{NODES}/{note}", json={"name": "b.md", "parent_id": folder, "content": "new"}
    ).json()
    assert (changed["name"], changed["parent_id"], changed["content"], changed["version"]) == ("b.md", folder, "new", 2)


def test_a_node_moves_with_everything_below_it_and_never_into_itself(running: Service) -> None:
    top, other = running.node("top", "folder"), running.node("other", "folder")
    inner = running.node("inner", "folder", parent_id=top)
    leaf = running.node("leaf.md", "markdown", "leaf", parent_id=inner)
    for parent in (top, inner):
        refused = running.client.patch(f"{NODES}/{top}", json={"parent_id": parent})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert running.client.patch(f"{NODES}/{inner}", json={"parent_id": other}).status_code == 200
    assert running.get(f"{NODES}/{leaf}")["id_path"] == f"/{other}/{inner}/{leaf}"
    assert running.client.patch(f"{NODES}/{inner}", json={"parent_id": None}).status_code == 200
    assert running.get(f"{NODES}/{leaf}")["id_path"] == f"/{inner}/{leaf}"
    refused = running.client.patch(f"{NODES}/{inner}", json={"parent_id": leaf})
    assert "is not a folder" in refused.json()["detail"]


def test_an_id_is_taken_once_in_a_project(running: Service) -> None:
    running.node("one", "folder", id="taken")
    again = running.client.post(NODES, json={"name": "two", "type": "folder", "id": "taken"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    elsewhere = running.client.post("/api/projects/other/nodes", json={"name": "two", "type": "folder", "id": "taken"})
    assert elsewhere.status_code == 201


def test_tools_over_one_folder_share_an_index_until_the_last_is_deleted(running: Service, root: Path) -> None:
    folder = write(root / "shared", {"a.txt": "shared by two tools"})
    first = running.get(f"{TOOLS}/{running.local_tool(folder)}")
    second = running.get(f"{TOOLS}/{running.local_tool(folder / '')}")
    assert (first["index"], first["namespace"]) == (second["index"], second["namespace"])
    other = running.get(f"{TOOLS}/{running.local_tool(folder, config={'chunk_size': 100})}")
    assert other["index"]["index_id"] != first["index"]["index_id"]
    assert other["namespace"] == f"{first['namespace']}_{other['index']['index_id']}"
    running.wait(second["tool_id"])
    assert running.client.delete(f"{TOOLS}/{first['tool_id']}").status_code == 202
    assert running.client.get(f"{TOOLS}/{first['tool_id']}/status").status_code == 404
    assert running.query(second["tool_id"], "shared")[0]["file_path"] == "a.txt"


def test_many_tools_over_one_folder_at_once_share_one_index(running: Service, root: Path) -> None:
    folder = write(root / "crowd", {"a.txt": "wanted by many"})
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: running.local_tool(folder), range(24)))
    assert len({running.get(f"{TOOLS}/{tool}")["namespace"] for tool in made}) == 1
    assert running.wait(made[0])["total_chunks"] == 1


def test_creations_that_reuse_make_one_tool_of_a_folder(running: Service, root: Path) -> None:
    folder = write(root / "reused", {"a.txt": "wanted by many"})
    configs: list[dict[str, Any]] = [{}, {"watch": True}, {"chunk_size": 100}]
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda turn: running.local_tool(folder, reuse=True, config=configs[turn % 3]), range(6)))
    (tool,) = set(made)
    assert running.wait(tool)["total_chunks"] == 1
    write(folder, {"b.txt": "came later"})
    assert running.local_tool(folder, reuse=True, name="ignored") == tool
    eventually(lambda: running.status(tool)["indexed_files"] == 2, 20, lambda: str(running.status(tool)))
    assert running.get(f"{TOOLS}/{tool}")["name"] == "reused"
    # a creation that does not say so, and another project, get tools of their own
    assert running.local_tool(folder) != tool
    assert running.local_tool(folder, project="elsewhere", reuse=True) != tool


def test_a_slash_at_the_end_of_a_path_means_the_same_folder(running: Service, root: Path) -> None:
    folder = write(root / "slash", {"a.txt": "slash"})
    plain = running.get(f"{TOOLS}/{running.local_tool(folder)}")
    slashed = running.get(f"{TOOLS}/{running.tool(source={'kind': 'local', 'path': f'{folder}/'})}")
    assert plain["index"] == slashed["index"]


def namespaces(running: Service) -> list[str]:
    return [path.stem for path in (running.home / "lancedb").glob("*.lance")]


def test_a_folder_made_anew_at_once_gets_a_namespace_of_its_own(running: Service, root: Path) -> None:
    folder = write(root / "again", {"a.txt": "made again at once"})
    first = running.local_tool(folder)
    running.wait(first)
    before = running.get(f"{TOOLS}/{first}")
    assert running.client.delete(f"{TOOLS}/{first}").status_code == 202
    second = running.local_tool(folder)
    after = running.get(f"{TOOLS}/{second}")
    assert after["namespace"] == f"{before['namespace']}_{after['index']['index_id']}"
    assert running.wait(second)["reused_chunks"] == 1  # the text was already paid for
    assert running.query(second, "made again")[0]["file_path"] == "a.txt"
    eventually(lambda: before["namespace"] not in namespaces(running), 60, lambda: str(namespaces(running)))
    assert running.query(second, "made again", mode="vector")


def contents(running: Service) -> set[Path]:
    return {path for path in (running.home / "objects").rglob("*") if path.is_file()}


def test_deleting_a_project_removes_everything_of_it(running: Service, root: Path) -> None:
    project = "short-lived"
    nodes = f"/api/projects/{project}/nodes"
    before = contents(running)
    folder = running.post(nodes, {"name": "f", "type": "folder"}, 201)["id"]
    running.post(nodes, {"name": "a.md", "type": "markdown", "content": "in a file", "parent_id": folder}, 201)
    tools = [running.tool(project=project, node_id=folder), running.local_tool(root / "kitchen", project=project)]
    for made in tools:
        running.wait(made)
    held = [running.get(f"{TOOLS}/{made}") for made in tools]
    objects = contents(running) - before
    assert len(objects) == 1
    assert running.client.delete(f"/api/projects/{project}").status_code == 202
    assert [running.client.get(f"{TOOLS}/{made}").status_code for made in tools] == [404, 404]
    ids = [tool["index"]["index_id"] for tool in held]

    def gone() -> bool:
        left = "SELECT (SELECT count(*) FROM chunk WHERE index_id = ANY (%s::uuid[]))"
        left += " + (SELECT count(*) FROM search_index_file WHERE index_id = ANY (%s::uuid[]))"
        return running.rows(left, ids, ids) == [(0,)] and not {t["namespace"] for t in held} & {*namespaces(running)}

    eventually(gone, 60, lambda: f"{namespaces(running)} {running.logs()}")
    assert running.rows("SELECT 1 FROM content_node WHERE project_id = %s", project) == []
    assert not any(path.exists() for path in objects)
    again = running.client.delete(f"/api/projects/{project}")
    assert (again.status_code, again.json()["code"]) == (404, "not_found")
