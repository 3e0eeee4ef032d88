"""A wrong request gets a code and a remedy. A bad file gets an outcome of its own."""

from __future__ import annotations

import json
import math
import os
import random
import string
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from api.stack import programs
from api.stack.processes import running as process
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import PROJECT, TOOLS, NewService, Service, environment, new_database, next_broker, service
from worker.machine.directory_mark import FILE
from worker.settings import LOCAL_MODEL

NODES = f"/api/projects/{PROJECT}/nodes"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that no tool may read."""
    secret = tmp_path_factory.mktemp("outside") / "secret.txt"
    secret.write_text("the secret outside of every root")
    return secret


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path, s3: dict[str, str], provider: EmbeddingsFake) -> Iterator[Service]:
    env = {**provider.env, **s3, "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "KEYWORD_INDEX": "postgres"}
    with new_service(**env, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


@pytest.fixture(scope="module")
def tool(running: Service, root: Path) -> str:
    (root / "small").mkdir()
    (root / "small" / "a.txt").write_text("a small folder")
    (root / "loop").symlink_to("loop")
    made = running.local_tool(root / "small")
    running.wait(made)
    return made


def refused(running: Service, method: str, path: str, status: int, code: str, said: str, **body: Any) -> None:
    answer = running.client.request(method, path, **body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code), problem
    assert said in problem["detail"]
    assert problem["detail"].endswith((".", "`."))
    assert " " in problem["detail"]


def of_model(model: str, **more: Any) -> dict[str, Any]:
    return {"config": {"embedding_model": model, **more}}


SMALL: dict[str, Any] = {"source": {"kind": "local", "path": "{root}/small"}}
CREATE: list[tuple[dict[str, Any], int, str, str]] = [
    ({"source": {"kind": "nodes", "node_id": "none", "json_pointer": "/" * 10_000}}, 404, "not_found", "none"),
    ({"source": {"kind": "nodes", "node_id": "none", "json_pointer": "/" * 10_001}}, 422, "invalid_request", "pointer"),
    ({"node_id": "none"}, 404, "not_found", "check both ids"),
    ({"project_id": "nobody", "node_id": "none"}, 404, "not_found", "'nobody'"),
    ({}, 422, "invalid_request", "either node_id or source"),
    ({"node_id": "a", **SMALL}, 422, "invalid_request", "either node_id or source"),
    ({"project_id": ""}, 422, "invalid_request", "project_id"),
    ({"project_id": "a\0b", **SMALL}, 422, "invalid_request", "NUL"),
    ({"node_id": "a\0b"}, 422, "invalid_request", "NUL"),
    ({"source": {"kind": "local", "path": "/etc"}}, 422, "source_refused", "LOCAL_SOURCE_ROOTS"),
    ({"source": {"kind": "local", "path": "{root}/../.."}}, 422, "source_refused", "LOCAL_SOURCE_ROOTS"),
    ({"source": {"kind": "local", "path": "small"}}, 422, "source_refused", "absolute path"),
    ({"source": {"kind": "local", "path": "{root}/none"}}, 422, "folder_gone", "choose an existing directory"),
    ({"source": {"kind": "local", "path": "{root}/small/a.txt"}}, 422, "folder_gone", "not a directory"),
    ({"source": {"kind": "local", "path": "{root}/loop"}}, 422, "folder_gone", "not a directory"),
    ({"source": {"kind": "local", "path": "{root}/a\0b"}}, 422, "invalid_request", "NUL"),
    ({"source": {"kind": "s3", "bucket": "missing-bucket"}}, 422, "folder_gone", "missing-bucket"),
    ({"source": {"kind": "s3", "bucket": "x"}}, 422, "invalid_request", "bucket"),
    ({"source": {"kind": "ftp", "path": "x"}}, 422, "invalid_request", "kind"),
    ({**SMALL, "config": {"chunk_sise": 100}}, 422, "invalid_request", "config.chunk_sise"),
    ({**SMALL, "config": {"chunk_size": 1}}, 422, "invalid_request", "config.chunk_size"),
    ({**SMALL, "config": {"granularity": "lines"}}, 422, "invalid_request", "config.granularity"),
    ({**SMALL, "config": {"exclude": ["a/[b"]}}, 422, "invalid_request", "`exclude`"),
    ({**SMALL, "config": {"include": ["!"]}}, 422, "invalid_request", "`include`"),
    ({**SMALL, "config": {"include": ["a\0b"]}}, 422, "invalid_request", "NUL"),
    ({**SMALL, "config": {"include": ["\ud800"]}}, 422, "invalid_request", "config.include"),
    ({**SMALL, "config": {"exclude": ["a", "\udcff"]}}, 422, "invalid_request", "config.exclude"),
    ({**SMALL, "config": {"types": ["\ud800"]}}, 422, "invalid_request", "config.types"),
    ({**SMALL, "config": {"types": ["a" * 101]}}, 422, "invalid_request", "config.types"),
    (
        {**SMALL, "config": {"exclude": [letter * 1000 for letter in "ab" * 50] + ["c"]}},
        422,
        "invalid_request",
        "100,000",
    ),
    ({**SMALL, "name": "\ud800"}, 422, "invalid_request", "name"),
    ({**SMALL, **of_model("openai/no-such-model")}, 422, "embedding_model_refused", "no-such-model"),
    ({**SMALL, **of_model("openai/bad-dims", dimensions=32)}, 422, "embedding_model_refused", "31 dimensions"),
    ({**SMALL, **of_model("nobody/knows-this")}, 422, "embedding_model_refused", "nobody/knows-this"),
    ({**SMALL, **of_model("openai/http://127.0.0.1:9/x")}, 422, "model_not_allowed", "openai/*"),
    ({**SMALL, **of_model("huggingface/http://127.0.0.1:9/x")}, 422, "model_not_allowed", "ALLOWED_MODELS"),
    ({**SMALL, **of_model("bedrock/amazon.titan-embed-text-v2:0")}, 422, "model_not_allowed", LOCAL_MODEL),
    ({**SMALL, "config": {"min_token_count": 2**53 + 1}}, 422, "invalid_request", "min_token_count"),
    ({**SMALL, "config": {"max_token_count": 10**30}}, 422, "invalid_request", "max_token_count"),
    ({**SMALL, **of_model("local/other")}, 422, "embedding_model_refused", LOCAL_MODEL),
    ({**SMALL, **of_model(LOCAL_MODEL, dimensions=5)}, 422, "embedding_model_refused", "384"),
]


def placed(value: Any, root: Path) -> Any:
    return json.loads(json.dumps(value).replace("{root}", str(root)))


@pytest.mark.parametrize(("body", "status", "code", "said"), CREATE)
def test_a_tool_that_cannot_be_is_refused_at_once(
    running: Service, tool: str, root: Path, body: dict[str, Any], status: int, code: str, said: str
) -> None:
    content = json.dumps(placed({"project_id": PROJECT, **body}, root))
    headers = {"content-type": "application/json"}
    refused(running, "POST", TOOLS, status, code, said, content=content, headers=headers)


QUERY: list[tuple[dict[str, Any], str, str]] = [
    ({}, "invalid_request", "query"),
    ({"query": ""}, "invalid_request", "query"),
    ({"query": " \n "}, "invalid_request", "query"),
    ({"query": "x" * 10_001}, "invalid_request", "query"),
    ({"query": "x", "top_k": 0}, "invalid_request", "top_k"),
    ({"query": "x", "top_k": 10_001}, "invalid_request", "top_k"),
    ({"query": "x", "mode": "magic"}, "invalid_request", "mode"),
    ({"query": "x", "topk": 5}, "invalid_request", "topk"),
    ({"query": "x", "filters": {"types": []}}, "invalid_request", "filters.types"),
    ({"query": "x", "filters": {"typ": ["md"]}}, "invalid_request", "filters.typ"),
    ({"query": "x", "filters": {"path": "none/**"}}, "no_such_files", "the path 'none/**'"),
    ({"query": "x", "filters": {"path": "!"}}, "invalid_request", "path"),
    ({"query": "x", "filters": {"path": "!**"}}, "no_such_files", "the path '!**'"),
    ({"query": "x", "filters": {"file_ids": ["nobody"]}}, "no_such_files", "file_ids"),
    ({"query": "x", "filters": {"types": ["pdf"]}}, "no_such_files", "types"),
    ({"query": "x", "filters": {"languages": ["cobol"], "path": "a.txt"}}, "no_such_files", "widen them"),
    ({"query": "x", "filters": {"symbols": ["f"]}}, "no_such_files", "symbols"),
    ({"query": "x", "filters": {"node_types": ["f"]}}, "no_such_files", "node_types"),
    ({"query": "x", "filters": {"scope": "f"}}, "no_such_files", "scope"),
    ({"query": "x", "filters": {"level": 7}}, "no_such_files", "level"),
    ({"query": "x", "filters": {"level": 2**40}}, "invalid_request", "level"),
    ({"query": "x", "filters": {"file_ids": ["a\0b"]}}, "invalid_request", "NUL"),
]


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
@pytest.mark.parametrize(("body", "code", "said"), QUERY)
def test_a_query_that_cannot_be_answered_is_refused(
    running: Service, tool: str, mode: str, body: dict[str, Any], code: str, said: str
) -> None:
    refused(running, "POST", f"{TOOLS}/{tool}/query", 422, code, said, json={"mode": mode, **body})


ODD_QUERIES = ["\0", "b\0c", "' \" \\ & | ! :* <-> (", "\N{SNOWMAN}", "x" * 10_000]


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_odd_characters_in_a_query_find_nothing_and_hide_no_word(running: Service, tool: str, mode: str) -> None:
    for odd in ODD_QUERIES:
        # some vector is always the nearest
        assert len(running.query(tool, odd, mode=mode)) == (0 if mode == "keyword" else 1), odd[:50]
        # no longer than a query may be
        around = f"{odd[:4_996]} small {odd[:4_997]}"
        assert [hit["file_path"] for hit in running.query(tool, around, mode=mode)] == ["a.txt"], odd[:50]


@pytest.mark.parametrize("path", [TOOLS, "{tool}/query", NODES])
def test_a_body_that_is_not_json_is_refused(running: Service, tool: str, path: str) -> None:
    headers = {"content-type": "application/json"}
    place = path.replace("{tool}", f"{TOOLS}/{tool}")
    refused(running, "POST", place, 400, "invalid_json", "quotes and commas", content=b'{"a": ', headers=headers)
    refused(running, "POST", place, 422, "invalid_request", "/docs", content=b"[]", headers=headers)
    refused(running, "POST", place, 422, "invalid_request", "/docs")
    for broken in (b"\xff\xfe", b"[" * 100_000):
        refused(running, "POST", place, 400, "invalid_json", "JSON", content=broken, headers=headers)


PLACES: list[tuple[str, str, int, str, str]] = [
    ("GET", "/api/nothing", 404, "not_found", "/docs"),
    ("PUT", TOOLS, 405, "method_not_allowed", "send GET, OPTIONS, POST"),
    ("GET", f"{TOOLS}/no-id", 404, "not_found", "no-id"),
    ("GET", f"{TOOLS}/00000000-0000-0000-0000-000000000000/status", 404, "not_found", f"GET {TOOLS}"),
    ("DELETE", f"{TOOLS}/00000000-0000-0000-0000-000000000000", 404, "not_found", f"GET {TOOLS}"),
    ("GET", f"{TOOLS}?cursor=x", 422, "invalid_request", "next_cursor"),
    ("GET", f"{TOOLS}?limit=0", 422, "invalid_request", "limit"),
    ("GET", f"{TOOLS}?project_id=%00", 422, "invalid_request", "NUL"),
    ("GET", "{tool}/tasks?cursor=WzFd", 422, "invalid_request", "next_cursor"),
    ("GET", "{tool}/files?cursor=%00", 422, "invalid_request", "next_cursor"),
    ("GET", "{tool}/files?status=lost", 422, "invalid_request", "status"),
    ("GET", "{tool}/files?limit=1001", 422, "invalid_request", "limit"),
    ("GET", "{tool}/files?q=%00", 422, "invalid_request", "NUL"),
    ("GET", "{tool}/files/nobody", 404, "not_found", "nobody"),
    ("GET", "{tool}/files/%00", 422, "invalid_request", "NUL"),
    ("GET", f"{NODES}/none", 404, "not_found", "check both ids"),
    ("DELETE", f"{NODES}/none", 404, "not_found", "check both ids"),
    ("DELETE", "/api/projects/nobody", 404, "not_found", "nobody"),
    ("DELETE", "/api/projects/%00", 422, "invalid_request", "NUL"),
]


@pytest.mark.parametrize(("method", "path", "status", "code", "said"), PLACES)
def test_what_does_not_exist_or_is_requested_wrongly_is_refused(
    running: Service, tool: str, method: str, path: str, status: int, code: str, said: str
) -> None:
    refused(running, method, path.replace("{tool}", f"{TOOLS}/{tool}"), status, code, said)


NEW_NODES: list[tuple[dict[str, Any], int, str, str]] = [
    ({"name": "x", "type": "markdown", "content": "x", "parent_id": "none"}, 404, "not_found", "none"),
    ({"name": "x", "type": "folder", "content": "x"}, 422, "invalid_request", "omit it"),
    ({"name": "x", "type": "json"}, 422, "invalid_request", "null"),
    ({"name": "x", "type": "markdown", "content": {"a": 1}}, 422, "invalid_request", "string"),
    ({"name": "x", "type": "markdown", "content": "\ud800"}, 422, "invalid_request", "surrogate"),
    ({"name": "x", "type": "folder", "id": "a/b"}, 422, "invalid_request", "id"),
    ({"name": "a\0b", "type": "folder"}, 422, "invalid_request", "NUL"),
    ({"name": "x", "type": "json", "content": {"a": "\ud800"}}, 422, "invalid_request", "surrogate"),
    ({"name": "x", "type": "json", "content": ["NaN", math.inf]}, 422, "invalid_request", "Infinity"),
    ({"name": "x", "type": "json", "content": {"Infinity": math.nan}}, 422, "invalid_request", "NaN"),
    ({"name": "x", "type": "json", "content": json.loads("[" * 300 + "]" * 300)}, 422, "invalid_request", "deeper"),
    ({"name": "", "type": "folder"}, 422, "invalid_request", "name"),
]


@pytest.mark.parametrize(("body", "status", "code", "said"), NEW_NODES)
def test_a_node_that_cannot_be_created_is_refused(
    running: Service, body: dict[str, Any], status: int, code: str, said: str
) -> None:
    headers = {"content-type": "application/json"}
    refused(running, "POST", NODES, status, code, said, content=json.dumps(body), headers=headers)


def test_a_project_whose_id_is_too_long_for_a_tool_has_no_nodes(running: Service) -> None:
    place = f"/api/projects/{os.urandom(1500).hex()}"
    refused(running, "POST", f"{place}/nodes", 422, "invalid_request", "200", json={"name": "x", "type": "folder"})
    refused(running, "POST", f"{place}/uploads", 422, "invalid_request", "200", files={"files": ("a.md", b"x")})


def test_a_folder_that_would_take_its_nodes_too_deep_stays(running: Service) -> None:
    def folders(count: int) -> list[str]:
        """Create folders, each inside the previous one."""
        made: list[str] = []
        for _ in range(count):
            parent = {"parent_id": made[-1]} if made else {}
            made.append(running.node("deep", "folder", id=os.urandom(90).hex(), **parent))
        return made

    upper, lower = folders(8), folders(8)
    refused(running, "PATCH", f"{NODES}/{lower[0]}", 422, "invalid_request", "deep", json={"parent_id": upper[-1]})
    assert running.get(f"{NODES}/{lower[-1]}")["id_path"] == "/" + "/".join(lower)
    moved = running.client.patch(f"{NODES}/{lower[-2]}", json={"parent_id": upper[-1]})
    assert moved.status_code == 200
    assert running.get(f"{NODES}/{lower[-1]}")["id_path"] == "/" + "/".join([*upper, *lower[-2:]])


def test_a_bare_nan_in_the_content_of_a_node_is_refused(running: Service) -> None:
    body = b'{"name": "x", "type": "json", "content": [NaN]}'
    headers = {"content-type": "application/json"}
    refused(running, "POST", NODES, 422, "invalid_request", "NaN", content=body, headers=headers)


def test_a_refused_request_leaves_no_object_behind(running: Service) -> None:
    body = {"name": "x", "type": "markdown", "content": "x", "parent_id": "none"}
    assert running.client.post(NODES, json=body).status_code == 404
    assert [path for path in (running.home / "objects").rglob("*") if path.is_file() and path.name != FILE] == []


def test_a_pointer_narrows_json_only(running: Service) -> None:
    note = running.node("n.md", "markdown", "text")
    body = {"project_id": PROJECT, "node_id": note, "json_pointer": "/a"}
    refused(running, "POST", TOOLS, 422, "invalid_request", "json node", json=body)
    assert running.client.delete(f"{NODES}/{note}").status_code == 202


def test_a_pointer_that_is_not_there_is_the_files_outcome(running: Service) -> None:
    data = running.node("n.json", "json", {"a": {"b": "some text"}})
    status = running.wait(running.tool(node_id=data, json_pointer="/x/y"), "error")
    assert "/x/y" in status["error"]


def test_an_empty_folder_is_ready_with_no_file(running: Service, root: Path) -> None:
    (root / "empty").mkdir()
    made = running.local_tool(root / "empty")
    status = running.wait(made)
    assert (status["total_files"], status["total_chunks"], status["progress"]) == (0, 0, 1)
    for mode in ("hybrid", "vector", "keyword"):
        assert running.query(made, "anything", mode=mode) == []
    body = {"query": "x", "filters": {"path": "*"}}
    refused(running, "POST", f"{TOOLS}/{made}/query", 422, "no_such_files", "path", json=body)


def test_a_folder_of_skipped_files_is_ready(running: Service, root: Path) -> None:
    (root / "images").mkdir()
    (root / "images" / "a.png").write_bytes(b"\0\1\2")
    status = running.wait(running.local_tool(root / "images"))
    assert (status["total_files"], status["skipped_files"], status["error"]) == (1, 1, None)


def test_a_folder_where_every_file_fails_is_an_error_with_the_reason(running: Service, root: Path) -> None:
    (root / "broken").mkdir()
    (root / "broken" / "a.pdf").write_text("%PDF-1.7")
    made = running.local_tool(root / "broken")
    assert "a.pdf" in running.wait(made, "error")["error"]
    (root / "broken" / "a.pdf").write_text("mended")
    again = running.local_tool(root / "broken")
    assert running.wait(again)["indexed_files"] == 1


def _word(length: int) -> str:
    """Incompressible letters, always the same."""
    return "".join(random.Random(length).choices(string.ascii_letters, k=length))


def _function(length: int) -> bytes:
    """A definition whose name is longer than any index row, and a use of such a name in it."""
    return f"class Short:\n    def {_word(length)}(self):\n        return {_word(length + 1)}()\n".encode()


ODD: dict[str, tuple[bytes, str, str | None, str]] = {
    "latin-1.txt": (b"caf\xe9 and more", "indexed", None, ""),
    "utf16.txt": ("text".encode("utf-16"), "indexed", None, ""),
    "nul.txt": (b"a\0b", "skipped", "binary", "offset 1"),
    "invalid.json": (b'{"a" 1}', "indexed", None, "line 1"),
    "nan.json": (b'{"a": NaN}', "indexed", None, "NaN"),
    "deep.json": (b"[" * 200_000, "failed", "parse_failed", ""),
    "empty.md": (b"", "skipped", "empty", "no content"),
    "blank.md": (b" \n\t\n", "skipped", "no_text", "white space"),
    "disguised.txt": (b"%PDF-1.7 \n%%EOF", "failed", "parse_failed", "PDF"),
    "archive.zip": (b"PK", "skipped", "unsupported_type", "archive"),
    "nul-key.json": (json.dumps({"a\0b": {"text": "nul key " * 20}}).encode(), "indexed", None, ""),
    "surrogate.json": (json.dumps({"\ud800": {"text": "surrogate key " * 20}}).encode(), "indexed", None, ""),
    "bom.md": (b"\xef\xbb\xbf# Mark\n\nA byte order mark.", "indexed", None, ""),
    "note.txt": (b"three word note", "indexed", None, ""),
    "Makefile": (b"all:\n\techo made\n", "indexed", None, ""),
    "caf\udce9.txt": (b"a name that is no text", "indexed", None, ""),
    "names.py": (_function(3_000), "indexed", None, ""),
}


@pytest.fixture(scope="module")
def odd(running: Service, root: Path, outside: Path) -> str:
    """A tool over a folder of odd files."""
    folder = root / "odd"
    folder.mkdir()
    for name, (data, *_) in ODD.items():
        (folder / name).write_bytes(data)
    (folder / "link.txt").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    os.mkfifo(folder / "pipe")
    made = running.local_tool(folder)
    running.wait(made)
    return made


def test_each_odd_file_has_its_own_outcome_and_the_rest_is_indexed(running: Service, odd: str) -> None:
    files = {file["file_path"]: file for file in running.files(odd)}
    for name, (_, status, reason, said) in ODD.items():
        file = files[name.encode(errors="surrogateescape").decode(errors="backslashreplace")]
        assert (file["status"], file["reason"]) == (status, reason), file
        assert said in (file["message"] or "")
        assert (file["chunks"] > 0) == (status == "indexed")
    outcomes = {name: (files[name]["status"], files[name]["reason"]) for name in ("link.txt", "linked", "pipe")}
    assert outcomes == {
        "link.txt": ("skipped", "symlink"),
        "linked": ("skipped", "symlink"),
        "pipe": ("skipped", "not_a_file"),
    }
    assert all(file["message"].endswith(".") for file in files.values() if file["reason"])


def test_names_too_long_to_be_looked_up_cost_no_others(running: Service, odd: str) -> None:
    assert running.rows("SELECT name FROM symbol") == [("Short",)]


def test_a_path_longer_than_an_index_row_is_indexed_and_shown_in_part(running: Service, root: Path) -> None:
    (root / "deep").mkdir()
    with ExitStack() as handles:
        folder = _opened(handles, root / "deep", None)
        # longer than any full path that the system accepts
        for number in range(30):
            os.mkdir(name := _word(200 + number), dir_fd=folder)
            folder = _opened(handles, name, folder)
        with open(os.open("last.md", os.O_CREAT | os.O_WRONLY, dir_fd=folder), "w") as file:  # noqa: PTH123 - takes the descriptor
            file.write("# Far below\n\nA text at the end of a very long way.\n")
    made = running.local_tool(root / "deep")
    assert running.wait(made)["indexed_files"] == 1
    (hit,) = running.query(made, "the end of a long way")
    assert hit["file_path"].startswith(_word(200))
    assert hit["file_path"].endswith("/last.md")


def _opened(handles: ExitStack, name: str | Path, folder: int | None) -> int:
    handle = os.open(name, os.O_RDONLY, dir_fd=folder)
    handles.callback(os.close, handle)
    return handle


def test_three_words_are_found_and_a_secret_is_not(running: Service, odd: str) -> None:
    for mode in ("hybrid", "vector", "keyword"):
        assert running.query(odd, "three word note", mode=mode)[0]["file_path"] == "note.txt"
        assert not any("secret" in hit["chunk_text"] for hit in running.query(odd, "secret outside", mode=mode))


def test_a_single_line_of_five_megabytes_is_cut(running: Service, root: Path) -> None:
    folder = root / "long"
    folder.mkdir()
    line = "many words " * 230_000 + "needle " + "more words " * 230_000
    (folder / "line.txt").write_text(line)
    (folder / "note.txt").write_text("three word note")
    made = running.local_tool(folder, **of_model("openai/m"))
    status = running.wait(made)
    assert (status["indexed_files"], status["failed_files"], len(line) > 5_000_000) == (2, 0, True)
    hit, *_ = running.query(made, "needle", mode="keyword")
    assert "needle" in hit["chunk_text"].split()
    assert line[hit["start_char"] : hit["end_char"]] == hit["chunk_text"]
    assert (hit["start_line"], hit["end_line"]) == (1, 1)


def test_a_file_without_text_says_why(running: Service, odd: str) -> None:
    (file,) = running.files(odd, q="nul.txt")
    refused(running, "GET", f"{TOOLS}/{odd}/files/{file['file_id']}", 404, "not_found", "nul.txt")


@pytest.fixture(scope="module")
def idle(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, template_url: str, redis_url: str, root: Path
) -> Iterator[Service]:
    """A service without workers whose key for the embedding provider is wrong."""
    with ExitStack() as stack:
        fake = stack.enter_context(EmbeddingsFake())
        url = stack.enter_context(new_database(postgres_url, template_url))
        env = {"DEFAULT_EMBEDDING_MODEL": "openai/m", "EMBEDDING_API_BASE": fake.url, "EMBEDDING_API_KEY": "wrong"}
        home = tmp_path_factory.mktemp("idle")
        made = environment(home, url, next_broker(redis_url), LOCAL_SOURCE_ROOTS=str(root), **env)
        yield stack.enter_context(service(made, workers=False))


def test_a_wrong_key_of_the_provider_is_told_at_once(idle: Service, tool: str, root: Path) -> None:
    body = placed({"project_id": PROJECT, **SMALL}, root)
    refused(idle, "POST", TOOLS, 422, "embedding_model_refused", "EMBEDDING_API_KEY", json=body)


def test_no_model_but_the_default_and_local_ones_may_be_named_unless_allowed(
    idle: Service, tool: str, root: Path
) -> None:
    body = placed({"project_id": PROJECT, **SMALL, **of_model("openai/other")}, root)
    refused(idle, "POST", TOOLS, 422, "model_not_allowed", "openai/m, local/*", json=body)


def test_a_folder_that_is_gone_before_it_is_listed_is_an_error_with_the_reason(idle: Service, root: Path) -> None:
    gone, closed = root / "gone", root / "closed"
    tools = []
    for folder in (gone, closed):
        folder.mkdir()
        (folder / "a.txt").write_text("soon gone")
        tools.append(idle.local_tool(folder, config={"embedding_model": LOCAL_MODEL}))
        assert idle.status(tools[-1])["status"] == "pending"
        (folder / "a.txt").unlink()
        folder.rmdir()
    closed.write_text("a file where a folder was")
    env = {**idle.env, "DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL}
    with process(programs.fast_worker(env), idle.home):
        for tool in tools:
            status = idle.wait(tool, "error")
            assert "choose an existing directory" in status["error"]
            assert (status["total_files"], status["finished_at"] is not None) == (0, True)
