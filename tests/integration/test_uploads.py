"""Uploads: many files at once become nodes, a refused file affects no other, and an aborted upload leaves nothing."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any
from uuid import uuid4

import pytest

from api.stack.processes import Process, start, wait_until
from tests.service import (
    PROJECT,
    TOOLS,
    NewService,
    Service,
    checked,
    eventually,
)
from worker.machine.directory_mark import FILE
from worker.objects.object_store import S3Objects, s3_client
from worker.settings import LOCAL_MODEL

NODES = f"/api/projects/{PROJECT}/nodes"
UPLOADS = f"/api/projects/{PROJECT}/uploads"
MEGABYTE = 1 << 20
#: Small enough for tests to reach.
LIMITS = {"MAX_FILE_BYTES": str(20 * MEGABYTE)}


@pytest.fixture(scope="module")
def s3(s3: dict[str, str]) -> dict[str, str]:
    """A service with a bucket for contents."""
    bucket = f"contents-{uuid4().hex}"
    s3_client(s3["S3_ENDPOINT_URL"]).create_bucket(Bucket=bucket)
    return {**s3, "S3_BUCKET": bucket}


@pytest.fixture(scope="module", params=["directory", "s3"])
def running(request: pytest.FixtureRequest, new_service: NewService) -> Iterator[Service]:
    store = request.getfixturevalue("s3") if request.param == "s3" else {}
    with new_service(DEFAULT_EMBEDDING_MODEL=LOCAL_MODEL, **LIMITS, **store) as started:
        yield started


@pytest.fixture
def folder(running: Service) -> str:
    return running.node(f"f{uuid4().hex[:8]}", "folder")


def upload(running: Service, files: dict[str, bytes] | list[tuple[str, bytes]], **fields: str) -> list[dict[str, Any]]:
    named = files.items() if isinstance(files, dict) else files
    parts = [("files", (name, content)) for name, content in named]
    return list(checked(running.client.post(UPLOADS, files=parts, data=fields), 200)["items"])


def names(running: Service, folder: str) -> set[str]:
    """Paths of names below a folder; folders end with a slash."""
    rows = running.rows(
        "WITH RECURSIVE tree AS (SELECT id, '' AS path FROM content_node WHERE id = %s UNION ALL"
        " SELECT n.id, tree.path || n.name || CASE n.type WHEN 'folder' THEN '/' ELSE '' END"
        " FROM tree JOIN content_node n ON n.parent_id = tree.id) SELECT path FROM tree WHERE path <> ''",
        folder,
    )
    return {path for (path,) in rows}


def objects(running: Service) -> int:
    """Everything in the object store, complete or not."""
    if "S3_BUCKET" not in running.env or not running.env["S3_BUCKET"]:
        return sum(path.is_file() and path.name != FILE for path in (running.home / "objects").rglob("*"))
    store = S3Objects(running.env["S3_BUCKET"], running.env["S3_ENDPOINT_URL"])
    client = s3_client(store.endpoint_url)
    unfinished = client.list_multipart_uploads(Bucket=store.bucket).get("Uploads", [])
    return client.list_objects_v2(Bucket=store.bucket)["KeyCount"] + len(unfinished)


def named_objects(running: Service) -> int:
    return int(running.rows("SELECT count(*) FROM content_node WHERE object_key IS NOT NULL")[0][0])


def strays(running: Service) -> list[tuple[Any, ...]]:
    return running.rows("SELECT key, due_at, given_up FROM content_stray")


def test_many_files_become_nodes_below_folders_of_their_names(running: Service, folder: str) -> None:
    sent = {f"part {n % 3}/deep/note {n}.md": f"# Note {n}\n\nkiwi{n}".encode() for n in range(48)}
    sent |= {"data.json": b'{ "fruit": "papaya" }', "tool.py": b"def peel(): ...\n"}
    items = upload(running, sent, parent_id=folder)
    assert [item["file_path"] for item in items] == list(sent)
    assert {item["outcome"] for item in items} == {"created"}
    assert items[0] == {
        "file_id": items[0]["file_id"],
        "file_name": "note 0.md",
        "file_path": "part 0/deep/note 0.md",
        "file_extension": "md",
        "size": len(sent["part 0/deep/note 0.md"]),
        "outcome": "created",
        "reason": None,
        "message": None,
    }
    assert names(running, folder) == {*sent, *(f"part {n}/" for n in range(3)), *(f"part {n}/deep/" for n in range(3))}
    node = running.get(f"{NODES}/{items[0]['file_id']}")
    assert (node["type"], node["version"], node["content"]) == ("markdown", 1, "# Note 0\n\nkiwi0")
    tool = running.tool(node_id=folder)
    running.wait(tool)
    assert [file for file in running.files(tool) if file["status"] != "indexed"] == []
    assert len(running.files(tool)) == 50
    (hit,) = running.query(tool, "kiwi17", mode="keyword")
    assert (hit["file_path"], hit["file_node_id"]) == ("part 2/deep/note 17.md", items[17]["file_id"])
    (code,) = running.query(tool, "peel", mode="keyword")
    assert (code["file_type"], code["language"]) == ("code", "python")
    assert strays(running) == []


def test_uploaded_json_is_a_json_node_whose_bytes_stay_as_they_are(running: Service, folder: str) -> None:
    text = b'{"config": {"auth": {"type":   "JWT"}, "port": 80}}\n'
    made, broken = upload(running, {"data.json": text, "broken.JSON": b"{nope"}, parent_id=folder)
    # a value that no answer could contain
    for odd in ("[" * 300 + "]" * 300, '"\\ud800"'):
        (item,) = upload(running, {"odd.json": odd.encode()})
        assert running.get(f"{NODES}/{item['file_id']}")["content"] == odd
    node = running.get(f"{NODES}/{made['file_id']}")
    assert (node["type"], node["size"], node["content"]) == ("json", len(text), json.loads(text))
    assert running.get(f"{NODES}/{broken['file_id']}")["content"] == "{nope"
    tool = running.tool(node_id=made["file_id"], json_pointer="/config/auth")
    running.wait(tool)
    (hit,) = running.query(tool, "JWT", mode="keyword")
    assert hit["json_pointer"].startswith("/config/auth")
    whole = running.tool(node_id=folder)
    assert running.wait(whole)["failed_files"] == 0
    said = {file["file_name"]: file["message"] for file in running.files(whole)}
    assert said["data.json"] is None
    assert "Not well-formed JSON at line 1" in said["broken.JSON"]
    file = running.files(whole, q="data.json")[0]
    shown = running.get(f"{TOOLS}/{whole}/files/{file['file_id']}")["text"]
    assert shown == text.decode()


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/abs/./x//y.md", "abs/x/y.md"),
        ("C:\\Users\\me\\a.md", "a.md"),
        ("dir\\sub\\a.md", "dir/sub/a.md"),
        ("tab\there\x7f.md", "tabhere.md"),
        (" spaced .md ", "spaced .md"),
        ("e\u0301te\u0301.md", "\u00e9t\u00e9.md"),
        ('quo"ted.md', 'quo"ted.md'),
        ("emoji \U0001f600\u200d.md", "emoji \U0001f600\u200d.md"),
    ],
)
def test_names_are_cleaned(running: Service, folder: str, sent: str, path: str) -> None:
    (item,) = upload(running, {sent: b"text"}, parent_id=folder)
    assert (item["file_path"], item["outcome"]) == (path, "created")
    assert path in names(running, folder)


def test_names_that_are_too_long_are_cut_and_stay_apart(running: Service, folder: str) -> None:
    long = {"\u00fc" * 300 + f"{n}.md": b"text" for n in range(2)}
    items = upload(running, long, parent_id=folder)
    assert [item["outcome"] for item in items] == ["created"] * 2
    assert len({item["file_name"] for item in items}) == 2
    assert all(len(item["file_name"].encode()) <= 255 and item["file_extension"] == "md" for item in items)


def test_a_refused_file_refuses_only_itself(running: Service, folder: str) -> None:
    upload(running, {"taken/inner.md": b"1", "plain": b"2"}, parent_id=folder)
    sent = [
        ("first.md", b"kept"),
        ("large.md", b"x" * (20 * MEGABYTE + 1)),
        ("virus.EXE", b"MZ"),
        ("evil.txt", b"\x7fELF\2\1\1" + bytes(50_000)),
        ("short.md", b"MZ\x90\0"),
        ("..", b"no name"),
        ("a/" * 60 + "deep.md", b"too deep"),
        ("taken", b"a folder has this name"),
        ("plain/below.md", b"a file has this name"),
        ("last.md", b"kept too"),
    ]
    before = objects(running)
    items = upload(running, sent, parent_id=folder)
    refused = [None, "too_large", *["unsupported_type"] * 3, "bad_name", "too_deep", "is_folder", "not_a_folder", None]
    assert [item["reason"] for item in items] == refused
    assert [item["outcome"] for item in items] == ["refused" if reason else "created" for reason in refused]
    assert all((item["file_id"] is None) == bool(item["message"]) == bool(item["reason"]) for item in items)
    assert items[1]["size"] == 20 * MEGABYTE + 1
    assert [("The content is that" in item["message"]) for item in items[2:5]] == [False, True, True]
    assert ".so file" in items[3]["message"]
    assert names(running, folder) == {"taken/", "taken/inner.md", "plain", "first.md", "last.md"}
    assert objects(running) == before + 2
    assert strays(running) == []


def test_the_same_name_is_a_new_version(running: Service, folder: str) -> None:
    (first,) = upload(running, {"a/x.md": b"# one\n\nfirstword"}, parent_id=folder)
    tool = running.tool(node_id=folder)
    running.wait(tool)
    held = objects(running)
    second, third = upload(running, [("a/x.md", b"never seen"), ("a/x.md", b"# two\n\nsecondword")], parent_id=folder)
    assert {item["file_id"] for item in (first, second, third)} == {first["file_id"]}
    assert [item["outcome"] for item in (second, third)] == ["updated", "updated"]
    node = running.get(f"{NODES}/{first['file_id']}")
    assert (node["version"], node["content"]) == (3, "# two\n\nsecondword")
    # the old content is deleted once no node refers to it
    assert objects(running) == held
    running.post(f"{TOOLS}/{tool}/reindex", None)
    running.wait(tool)
    assert running.query(tool, "firstword", mode="keyword") == []
    assert running.query(tool, "secondword", mode="keyword")[0]["file_path"] == "a/x.md"
    inline = running.node("data.json", "json", {"old": 1}, parent_id=folder)
    (over,) = upload(running, {"data.json": b'{"new": 2}'}, parent_id=folder)
    assert (over["file_id"], over["outcome"]) == (inline, "updated")
    assert running.get(f"{NODES}/{inline}")["content"] == {"new": 2}


def test_the_folder_may_be_named_before_or_after_the_files_or_be_the_root(running: Service, folder: str) -> None:
    boundary = "b"
    file = '--b\r\nContent-Disposition: form-data; name="files"; filename="x.md"\r\n\r\ntext\r\n'
    field = f'--b\r\nContent-Disposition: form-data; name="parent_id"\r\n\r\n{folder}\r\n'
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    outcomes = []
    for body in (file + field, field + file):
        answer = checked(running.client.post(UPLOADS, content=f"{body}--b--\r\n", headers=headers), 200)
        outcomes += [item["outcome"] for item in answer["items"]]
    by_query = running.client.post(UPLOADS, params={"parent_id": folder}, files={"files": ("x.md", b"3")})
    outcomes += [item["outcome"] for item in checked(by_query, 200)["items"]]
    assert outcomes == ["created", "updated", "updated"]
    name = f"{uuid4().hex}.md"
    (item,) = upload(running, {name: b"at the root"})
    assert running.get(f"{NODES}/{item['file_id']}")["parent_id"] is None
    assert upload(running, {name: b"again"})[0]["file_id"] == item["file_id"]


def test_what_is_no_upload_is_told(running: Service, folder: str) -> None:
    file = {"files": ("a.md", b"text")}
    node = running.node("a.md", "markdown", "text", parent_id=folder)
    before = objects(running)
    cut = b'--b\r\nContent-Disposition: form-data; name="files"; filename="x.md"\r\n\r\ntext'
    of_type = {"content-type": "multipart/form-data; boundary=b"}
    for status, code, sent in (
        (404, "not_found", {"files": file, "data": {"parent_id": "nowhere"}}),
        (422, "invalid_request", {"files": file, "data": {"parent_id": node}}),
        (422, "invalid_request", {"files": file, "data": {"folder": folder}}),
        (422, "invalid_request", {"files": {"parent_id": (None, folder)}}),
        (422, "invalid_request", {"json": {"files": []}}),
        (422, "invalid_request", {"content": b"nonsense", "headers": of_type}),
        (422, "invalid_request", {"content": cut, "headers": of_type}),
        (422, "invalid_request", {"content": b"x", "headers": {"content-type": "multipart/form-data"}}),
    ):
        answer = running.client.post(UPLOADS, **sent)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert names(running, folder) == {"a.md"}
    assert objects(running) == before
    assert strays(running) == []


def begin(running: Service, folder: str) -> socket.socket:
    """An upload in which one file is complete and the next is arriving."""
    whole = b"w" * 1000
    body = f'--b\r\nContent-Disposition: form-data; name="parent_id"\r\n\r\n{folder}\r\n'.encode()
    for name, content in (("whole.md", whole), ("half.md", b"h" * 10 * MEGABYTE)):
        body += f'--b\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode() + content
        body += b"\r\n" if content is whole else b""
    host = f"127.0.0.1:{running.env['API_PORT']}"
    head = f"POST {UPLOADS} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body) + 1_000_000}\r\n"
    head += "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    client = socket.create_connection(("127.0.0.1", int(running.env["API_PORT"])))
    client.sendall(head.encode() + body)
    return client


def test_a_client_that_leaves_leaves_nothing(running: Service, folder: str) -> None:
    before = objects(running)
    with begin(running, folder):
        eventually(lambda: len(strays(running)) == 2 and objects(running) >= before + 2, 60, running.logs)
    eventually(lambda: objects(running) == before and strays(running) == [], 60, running.logs)
    assert names(running, folder) == set()


def test_what_a_killed_api_leaves_is_swept_and_nothing_else(running: Service, folder: str) -> None:
    before = objects(running)
    kept = upload(running, {"kept.md": b"kept"}, parent_id=folder)[0]["file_id"]
    with begin(running, folder):
        eventually(lambda: len(strays(running)) == 2 and objects(running) >= before + 3, 60, running.logs)
        api = running.processes["api"]
        api.child.send_signal(SIGKILL)
        api.child.wait()
    running.processes["api"] = restarted(running, api)
    assert names(running, folder) == {"kept.md"}
    # it might still continue: nothing is deleted before its time
    running.rows("DELETE FROM upkeep WHERE name = 'strays' RETURNING 1")
    assert len(strays(running)) == 2
    # a row that names the content of a node must not cost the node its content
    key = running.rows("SELECT object_key FROM content_node WHERE id = %s", kept)[0][0]
    # not due yet: a sweep in between would delete this one alone, and run again only after minutes
    running.rows("INSERT INTO content_stray VALUES (%s, now() + interval '1 hour') RETURNING 1", key)
    running.rows("UPDATE content_stray SET due_at = now() RETURNING 1")
    eventually(lambda: strays(running) == [], 60, running.logs)
    assert objects(running) == before + 1
    assert running.get(f"{NODES}/{kept}")["content"] == "kept"


def restarted(running: Service, api: Process) -> Process:
    again = start(api.program, running.home)
    assert wait_until(api.program.ready, 60)
    return again


def test_an_upload_that_was_given_up_makes_no_node(running: Service, folder: str) -> None:
    with begin(running, folder) as client:
        eventually(lambda: len(strays(running)) == 2, 60, running.logs)
        running.rows("UPDATE content_stray SET given_up = true RETURNING 1")
        rest = b"\r\n--b--\r\n"
        client.sendall(b"h" * (1_000_000 - len(rest)) + rest)
        answer = client.recv(1 << 16)
    assert b" 409 " in answer.split(b"\r\n")[0]
    assert names(running, folder) == set()
    eventually(lambda: strays(running) == [], 60, running.logs)


def test_deleted_nodes_lose_their_objects_whatever_the_store_does(running: Service, folder: str) -> None:
    upload(running, {f"{n}.md": b"text" for n in range(5)}, parent_id=folder)
    before, named = objects(running), named_objects(running)
    assert running.client.delete(f"{NODES}/{folder}").status_code == 202
    assert (objects(running), named_objects(running)) == (before - 5, named - 5)
    assert strays(running) == []


def test_an_upload_costs_no_memory(running: Service, folder: str) -> None:
    """The memory of the API does not grow with the upload; only pieces of it are in memory at a time."""
    psutil = pytest.importorskip("psutil", reason="install psutil to run")
    api = psutil.Process(running.processes["api"].child.pid)
    upload(running, {"warm.bin.txt": b"x" * MEGABYTE}, parent_id=folder)
    before = api.memory_info().rss
    with tempfile.TemporaryFile() as file:
        file.write(b"y" * 18 * MEGABYTE)
        for _ in range(3):
            file.seek(0)
            sent = running.client.post(UPLOADS, files={"files": ("big.txt", file)}, data={"parent_id": folder})
            assert checked(sent, 200)["items"][0]["reason"] is None
    # four pieces, and the copies for their requests
    assert api.memory_info().rss - before < 40 * MEGABYTE


def test_uploads_belong_to_their_project(running: Service, folder: str, tmp_path: Path) -> None:
    answer = running.client.post(
        "/api/projects/other/uploads", files={"files": ("a.md", b"x")}, data={"parent_id": folder}
    )
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
