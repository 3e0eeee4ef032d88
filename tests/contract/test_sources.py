"""The same folder in each kind of source: listed in pages, stamped, read."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from moto.server import ThreadedMotoServer

from schemas.document import Entry
from schemas.errors import FileError, FolderGone, SourceRefused, SourceUnavailable
from schemas.status import Reason
from worker.objects import DirectoryObjects, s3_client
from worker.sources import Source
from worker.sources.local import LocalFolder
from worker.sources.nodes import SLASH_IN_NAME, NodeTree
from worker.sources.s3 import S3Prefix
from worker.state import Pool, open_pool

LIMIT = 1_000_000
TREE = {
    "README.md": b"# Read me\n",
    "config.json": b'{\n  "b": "\xc3\xa4",\n  "a": [\n    1\n  ]\n}',
    "docs/a.md": b"# A\n",
    "docs/deep/er/z.txt": b"z\n",
    "docs-old/a.md": b"# Old\n",
    "docs/100%_sure/x.txt": b"x\n",
    "gr\u00fc\u00dfe/\u65e5\u672c.txt": b"\xe3\x81\x82",
    "raw.bin": bytes(range(256)),
}


class Folder(Protocol):
    """A folder that a test fills and changes behind its source."""

    def source(self, page_size: int = 1000) -> Source: ...

    def write(self, path: str, data: bytes) -> None: ...

    def remove(self, path: str) -> None: ...

    def destroy(self) -> None: ...


class Disk:
    """A directory, beside one whose name begins alike."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "docs"
        self.root.mkdir()
        (base / "docs-other").mkdir()
        (base / "docs-other" / "no.md").write_bytes(b"no")

    def source(self, page_size: int = 1000) -> LocalFolder:
        return LocalFolder(str(self.root), [self.base], page_size=page_size)

    def write(self, path: str, data: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        # old enough to be trusted, and another time at each write
        now = time.time_ns() - 3_600_000_000_000
        os.utime(file, ns=(now, now))

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def destroy(self) -> None:
        shutil.rmtree(self.root)


class Bucket:
    """A prefix of a bucket, beside one that begins alike."""

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url
        self.bucket = f"bucket-{uuid4().hex}"
        self.client = s3_client(endpoint_url)
        self.client.create_bucket(Bucket=self.bucket)
        for key in ("docs/", "docs/empty-folder/", "docs-other/no.md"):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=b"")

    def source(self, page_size: int = 1000) -> S3Prefix:
        return S3Prefix(self.bucket, "docs", self.endpoint_url, page_size=page_size)

    def write(self, path: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"docs/{path}", Body=data)

    def remove(self, path: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=f"docs/{path}")

    def destroy(self) -> None:
        for item in self.client.list_objects_v2(Bucket=self.bucket)["Contents"]:
            self.client.delete_object(Bucket=self.bucket, Key=item["Key"])
        self.client.delete_bucket(Bucket=self.bucket)


class Tree:
    """A folder node two levels below the project's root, with an aunt whose id begins alike; .json names are inline."""

    def __init__(self, pool: Pool, directory: Path) -> None:
        self.pool = pool
        self.objects = DirectoryObjects(directory)
        self.project = f"p-{uuid4().hex}"
        self.ids: dict[str, str] = {}
        self.paths: dict[str, str] = {}
        top = self.add("top", None, "Top", "folder")
        self.root = self.add("root", top, "Root", "folder")
        aunt = self.add("root-2", top, "Aunt", "folder")
        self.add("no", aunt, "no.md", "markdown")

    def add(self, node_id: str, parent: str | None, name: str, type: str) -> str:  # noqa: A002 - the column's name
        self.paths[node_id] = f"{self.paths[parent] if parent else ''}/{node_id}"
        self.run(
            "INSERT INTO content_node (project_id, id, parent_id, id_path, name, type) VALUES (%s, %s, %s, %s, %s, %s)",
            *(self.project, node_id, parent, self.paths[node_id], name, type),
        )
        return node_id

    def run(self, query: str, *values: object) -> None:
        with self.pool.connection() as database:
            database.execute(query.encode(), values)

    def source(self, page_size: int = 1000, node_id: str = "root") -> NodeTree:
        return NodeTree(self.pool, self.objects, self.project, node_id, page_size=page_size)

    def node(self, path: str) -> str:
        """The id of the node at `path`, made with its folders where it is missing."""
        if not path:
            return self.root
        if path not in self.ids:
            parent, _, name = path.rpartition("/")
            kind = "json" if name.endswith(".json") else "markdown" if "." in name else "folder"
            # ids with the wildcards of LIKE, in another order than the names
            self.ids[path] = self.add(f"%_{uuid4().hex[:8]}", self.node(parent), name, kind)
        return self.ids[path]

    def write(self, path: str, data: bytes) -> None:
        node_id = self.node(path)
        inline = data.decode() if path.endswith(".json") else None
        key = None if inline else f"{self.project}/{node_id}/{uuid4()}"
        if key:
            self.objects.put(key, data)
        self.run(
            "UPDATE content_node SET json = %s, object_key = %s, size_bytes = %s, version = version + 1"
            " WHERE project_id = %s AND id = %s",
            *(inline, key, len(data), self.project, node_id),
        )

    def remove(self, path: str) -> None:
        self.run("DELETE FROM content_node WHERE project_id = %s AND id = %s", self.project, self.ids.pop(path))

    def destroy(self) -> None:
        self.run("DELETE FROM content_node WHERE project_id = %s AND id = %s", self.project, self.root)


@pytest.fixture(scope="module")
def endpoint_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint_url: str) -> Bucket:
    return Bucket(endpoint_url)


@pytest.fixture(scope="module")
def pool(database_url: str) -> Iterator[Pool]:
    with open_pool(database_url) as pool:
        yield pool


@pytest.fixture
def tree(pool: Pool, tmp_path: Path) -> Tree:
    return Tree(pool, tmp_path / "objects")


@pytest.fixture(params=["disk", "bucket", "tree"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    folder: Folder = Disk(tmp_path) if request.param == "disk" else request.getfixturevalue(request.param)
    return folder


@pytest.fixture
def full(folder: Folder) -> Folder:
    for path, data in TREE.items():
        folder.write(path, data)
    return folder


def listed(source: Source, cursor: str | None = None) -> list[Entry]:
    """Everything from `cursor` on, page by page."""
    page = source.list(cursor)
    entries = page.entries
    while page.cursor is not None:
        page = source.list(page.cursor)
        entries += page.entries
    return entries


def stamps(folder: Folder) -> dict[str, str]:
    return {entry.path: entry.stamp for entry in listed(folder.source())}


def key_of(folder: Folder, path: str) -> bytes:
    return next(entry.key for entry in listed(folder.source()) if entry.path == path)


def test_lists_every_descendant_with_its_size(full: Folder) -> None:
    full.source().check()
    entries = listed(full.source())
    assert {entry.path: entry.size for entry in entries} == {path: len(data) for path, data in TREE.items()}
    assert len({entry.key for entry in entries}) == len({entry.id_path for entry in entries}) == len(TREE)
    assert {entry.reason for entry in entries} == {None}


@pytest.mark.parametrize("page_size", [1, 3, 8])
def test_every_cursor_resumes_in_another_process(full: Folder, page_size: int) -> None:
    everything = [entry.key for entry in listed(full.source())]
    cursor, seen = None, 0
    while True:
        # a source made anew stands for another process
        assert [entry.key for entry in listed(full.source(page_size), cursor)] == everything[seen:]
        page = full.source(page_size).list(cursor)
        cursor, seen = page.cursor, seen + len(page.entries)
        assert len(page.entries) <= page_size
        if cursor is None:
            break
    assert seen == len(everything)


def test_a_file_gone_from_under_the_cursor_skips_nothing(full: Folder) -> None:
    paths = {entry.key: entry.path for entry in listed(full.source())}
    page = full.source(3).list(None)
    while not page.entries:
        page = full.source(3).list(page.cursor)
    full.remove(page.entries[-1].path)
    given = [entry.key for entry in page.entries]
    rest = [entry.key for entry in listed(full.source(3), page.cursor)]
    assert given + rest == list(paths)


def test_reads_what_was_written(full: Folder) -> None:
    for entry in listed(full.source()):
        content = full.source().read(entry.key, LIMIT)
        assert content.data == TREE[entry.path]
        assert content.stamp == entry.stamp


def test_a_stamp_changes_with_its_own_content_only(full: Folder) -> None:
    before = stamps(full)
    assert stamps(full) == before
    full.write("docs/a.md", b"# Another\n")
    after = stamps(full)
    assert {path for path in after if after[path] != before[path]} == {"docs/a.md"}


def test_the_limit_is_the_largest_size_read(full: Folder) -> None:
    for path in ("raw.bin", "config.json"):
        key, size = key_of(full, path), len(TREE[path])
        assert len(full.source().read(key, size).data) == size
        with pytest.raises(FileError) as refused:
            full.source().read(key, size - 1)
        assert refused.value.reason is Reason.TOO_LARGE


def test_a_file_that_vanished_is_an_outcome_of_its_own(full: Folder) -> None:
    source, key = full.source(), key_of(full, "raw.bin")
    full.remove("raw.bin")
    with pytest.raises(FileError) as gone:
        source.read(key, LIMIT)
    assert gone.value.reason is Reason.UNREADABLE


def test_an_empty_folder_is_a_folder(folder: Folder) -> None:
    folder.source().check()
    assert listed(folder.source()) == []


def test_a_missing_root_is_told(full: Folder) -> None:
    full.destroy()
    with pytest.raises(FolderGone):
        full.source().check()
    with pytest.raises(FolderGone):
        full.source().list(None)


# --- nodes


def test_a_node_keeps_its_stamp_and_cursor_when_moved_or_renamed(tree: Tree) -> None:
    tree.write("a/one.md", b"1")
    tree.write("b/two.md", b"2")
    page = tree.source(1).list(None)
    given, rest = page.entries, listed(tree.source(1), page.cursor)
    tree.run("UPDATE content_node SET name = 'renamed' WHERE project_id = %s AND name = 'a'", tree.project)
    tree.run(
        "UPDATE content_node SET id_path = '/elsewhere' || id_path WHERE project_id = %s AND id <> 'top'", tree.project
    )
    after = listed(tree.source(1), page.cursor)
    assert [(entry.key, entry.stamp) for entry in after] == [(entry.key, entry.stamp) for entry in rest]
    moved = {entry.key: entry for entry in listed(tree.source())}
    assert {entry.path for entry in moved.values()} == {"renamed/one.md", "b/two.md"}
    assert moved[given[0].key].stamp == given[0].stamp
    assert moved[given[0].key].id_path == "/elsewhere" + given[0].id_path


def test_a_node_made_anew_under_its_old_id_is_another(tree: Tree) -> None:
    stamps_seen = set()
    for _ in range(2):
        tree.add("again", tree.root, "again.md", "markdown")
        stamps_seen |= {entry.stamp for entry in listed(tree.source())}
        tree.run("DELETE FROM content_node WHERE project_id = %s AND id = 'again'", tree.project)
    assert len(stamps_seen) == 2


def test_entries_of_nodes_carry_ids_type_and_plain_paths(tree: Tree) -> None:
    tree.add("f", tree.root, "in/out", "folder")
    tree.add("n", "f", "", "json")
    [entry] = listed(tree.source())
    assert (entry.node_id, entry.id_path, entry.type) == ("n", "/top/root/f/n", "json")
    assert entry.path == f"in{SLASH_IN_NAME}out/n"


def test_a_single_node_is_a_folder_of_one(tree: Tree) -> None:
    tree.write("a/config.json", b'{"b": 1}')
    source = tree.source(1, tree.ids["a/config.json"])
    source.check()
    [entry] = listed(source)
    assert entry.path == "config.json"
    assert source.read(entry.key, LIMIT).data == b'{\n  "b": 1\n}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"z": 1, "a": "\u00e4\\u0000"}', '{\n  "z": 1,\n  "a": "\u00e4\\u0000"\n}'),
        ('"\\ud800!"', '"\ufffd!"'),
        ('"\\ud83d\\ude00"', '"\U0001f600"'),
        ("null", "null"),
        ("[]", "[]"),
    ],
)
def test_inline_json_is_shown_indented_and_in_order(tree: Tree, text: str, shown: str) -> None:
    node_id = tree.node("a.json")
    tree.run("UPDATE content_node SET json = %s WHERE project_id = %s AND id = %s", text, tree.project, node_id)
    assert tree.source().read(node_id.encode(), LIMIT).data.decode() == shown
    assert shown == shown.replace("\ufffd", "?") or json.loads(shown)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("9" * 5000, Reason.PARSE_FAILED),
        ("[" * 3000 + "]" * 3000, Reason.PARSE_FAILED),
        ("[" * 500 + ",".join("1" * 9000) + "]" * 500, Reason.TOO_LARGE),
    ],
)
def test_inline_json_that_python_cannot_hold_fails_alone(tree: Tree, text: str, reason: Reason) -> None:
    node_id = tree.node("a.json")
    tree.run("UPDATE content_node SET json = %s WHERE project_id = %s AND id = %s", text, tree.project, node_id)
    with pytest.raises(FileError) as failed:
        tree.source().read(node_id.encode(), LIMIT)
    assert failed.value.reason is reason


def test_a_node_without_content_is_empty_and_a_folder_no_file(tree: Tree) -> None:
    bare, inner = tree.node("bare.md"), tree.node("folder")
    for node_id, reason in ((bare, Reason.EMPTY), (inner, Reason.NOT_A_FILE)):
        with pytest.raises(FileError) as failed:
            tree.source().read(node_id.encode(), LIMIT)
        assert failed.value.reason is reason


def test_content_replaced_while_it_is_read_is_read_anew(tree: Tree) -> None:
    class Replacing(DirectoryObjects):
        """Objects among which an upload replaces the content just before the first `get`."""

        def get(self, key: str, limit: int) -> bytes:
            if key != latest:
                tree.run("UPDATE content_node SET object_key = %s WHERE project_id = %s", latest, tree.project)
                self.delete(key)
            return super().get(key, limit)

    tree.write("a.md", b"old")
    latest = f"{tree.project}/new"
    tree.objects.put(latest, b"new")
    tree.objects = Replacing(tree.objects.directory)
    assert tree.source().read(tree.ids["a.md"].encode(), LIMIT).data == b"new"


def test_a_database_that_is_away_is_not_a_missing_folder(tmp_path: Path) -> None:
    with open_pool(f"postgresql://nobody@127.0.0.1:{closed_port()}/none") as pool:
        pool.timeout = 0.2
        source = NodeTree(pool, DirectoryObjects(tmp_path), "p", "n")
        with pytest.raises(SourceUnavailable):
            source.check()


# --- s3


def test_a_closed_bucket_is_refused(bucket: Bucket) -> None:
    bucket.write("a.md", b"a")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket.bucket}*"}
    policy = {"Version": "2012-10-17", "Statement": [deny]}
    bucket.client.put_bucket_policy(Bucket=bucket.bucket, Policy=json.dumps(policy))
    with pytest.raises(FileError) as refused:
        bucket.source().read(b"a.md", LIMIT)
    assert refused.value.reason is Reason.UNREADABLE


def test_wrong_credentials_are_refused(bucket: Bucket) -> None:
    bucket.write("a.md", b"a")
    source = bucket.source()
    with credentials_checked(bucket.endpoint_url):
        for call in (source.check, lambda: source.list(None), lambda: source.read(b"a.md", LIMIT)):
            with pytest.raises(SourceRefused):
                call()


@contextmanager
def credentials_checked(endpoint_url: str) -> Iterator[None]:
    """Let the server refuse keys that nobody made, from the next request on."""

    def free_requests(count: bytes) -> None:
        # as plain text, for a form's body is taken apart on its way in
        request = Request(f"{endpoint_url}/moto-api/reset-auth", count, {"Content-Type": "text/plain"})
        urlopen(request).close()

    free_requests(b"0")
    try:
        yield
    finally:
        free_requests(b"inf")


def test_credentials_that_are_missing_are_refused(endpoint_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    # another spelling of the address, as a process keeps its clients
    with pytest.raises(SourceRefused):
        S3Prefix("any-bucket", "", endpoint_url.replace("127.0.0.1", "localhost")).check()


def test_a_service_that_is_away_is_not_a_missing_folder(endpoint_url: str) -> None:
    with pytest.raises(SourceUnavailable):
        S3Prefix("any-bucket", "", f"http://127.0.0.1:{closed_port()}").check()


def test_a_bucket_name_that_cannot_be_is_refused(endpoint_url: str) -> None:
    with pytest.raises(SourceRefused):
        S3Prefix("no such bucket!", "", endpoint_url).list(None)


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
