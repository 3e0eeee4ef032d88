"""A folder in each kind of source. Tests fill and change it without the source's knowledge."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from schemas.content.document import SourceEntry
from tests.helpers import POOL
from worker.ignore import EVERYTHING, Rules
from worker.objects.directory_objects import DirectoryObjects
from worker.objects.object_store import s3_client
from worker.sandbox.pool import ProjectHelpers
from worker.sources import Source
from worker.sources.local import LocalFolder
from worker.sources.nodes import NodeTree
from worker.sources.s3 import S3Prefix
from worker.state.pool import Pool

#: Bytes up to which tests read a file.
LIMIT = 1_000_000
#: Files that the fixture `full` writes, by path.
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
    """A folder that a test fills and changes."""

    def source(self, page_size: int = 1000, *, rules: Rules = EVERYTHING) -> Source: ...

    def write(self, path: str, data: bytes) -> None: ...

    def remove(self, path: str) -> None: ...

    def destroy(self) -> None: ...


class Disk:
    """A directory, next to another one whose name has the same prefix."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "docs"
        self.root.mkdir()
        (base / "docs-other").mkdir()
        (base / "docs-other" / "no.md").write_bytes(b"no")

    def source(self, page_size: int = 1000, *, rules: Rules = EVERYTHING) -> LocalFolder:
        return LocalFolder(str(self.root), [self.base], rules, page_size=page_size)

    def write(self, path: str, data: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        # old enough to be trusted, and a different time for each write
        now = time.time_ns() - 3_600_000_000_000
        os.utime(file, ns=(now, now))

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def destroy(self) -> None:
        shutil.rmtree(self.root)


class Bucket:
    """A prefix of a bucket, next to another one with the same beginning."""

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url
        self.bucket = f"bucket-{uuid4().hex}"
        self.client = s3_client(endpoint_url)
        self.client.create_bucket(Bucket=self.bucket)
        for key in ("docs/", "docs/empty-folder/", "docs-other/no.md"):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=b"")

    def source(self, page_size: int = 1000, *, rules: Rules = EVERYTHING) -> S3Prefix:
        return S3Prefix(self.bucket, "docs", self.endpoint_url, rules, page_size=page_size)

    def write(self, path: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"docs/{path}", Body=data)

    def remove(self, path: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=f"docs/{path}")

    def destroy(self) -> None:
        for item in self.client.list_objects_v2(Bucket=self.bucket)["Contents"]:
            self.client.delete_object(Bucket=self.bucket, Key=item["Key"])
        self.client.delete_bucket(Bucket=self.bucket)


class Tree:
    """A folder node two levels below the root. A sibling of its parent has an id with its prefix. JSON is inline."""

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

    def source(self, page_size: int = 1000, node_id: str = "root", *, rules: Rules = EVERYTHING) -> NodeTree:
        helpers = ProjectHelpers(POOL, self.project)
        return NodeTree(self.pool, self.objects, helpers, node_id, rules, page_size=page_size)

    def node(self, path: str, kind: str | None = None) -> str:
        """The id of the node at `path`. Creates missing nodes and folders."""
        if not path:
            return self.root
        if path not in self.ids:
            parent, _, name = path.rpartition("/")
            kind = kind or ("json" if name.endswith(".json") else "markdown" if "." in name else "folder")
            # ids with the wildcards of LIKE, in a different order than the names
            self.ids[path] = self.add(f"%_{uuid4().hex[:8]}", self.node(parent, "folder"), name, kind)
        return self.ids[path]

    def write(self, path: str, data: bytes) -> None:
        node_id = self.node(path, None if "." in path.rpartition("/")[2] else "text")
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


def listed(source: Source, cursor: str | None = None) -> list[SourceEntry]:
    """Everything from `cursor` on, page by page."""
    page = source.list(cursor)
    entries = page.entries
    while page.cursor is not None:
        page = source.list(page.cursor)
        entries += page.entries
    return entries


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
