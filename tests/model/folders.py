"""Folders of each kind of source. They can be changed, and remember what they hold."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from tests.service import PROJECT, TOOLS, checked
from worker.formats.by_name import stated_type
from worker.objects.object_store import s3_client
from worker.state.index.files import file_id

NODES = f"/api/projects/{PROJECT}/nodes"


@dataclass(frozen=True, slots=True)
class Known:
    """What a source states about a file besides its content."""

    key: bytes
    id_path: str
    node_id: str | None
    type: str | None

    def file_node_id(self, index_id: UUID) -> str:
        return self.node_id or str(file_id(index_id, self.key))


@dataclass
class Folder(ABC):
    """A folder with its files by path. Directories exist as long as they contain something."""

    files: dict[str, bytes] = field(default_factory=dict, init=False)

    #: Whether written files get a current time, so that their stamps are not trusted.
    fresh: bool = field(default=False, init=False)

    @property
    @abstractmethod
    def source(self) -> dict[str, Any]:
        """The part of a new tool's request body that says where the folder is."""

    @property
    @abstractmethod
    def may_hold_removals(self) -> bool:
        """Whether Foldex holds removals back if most files vanish, because the source may be at fault."""

    @abstractmethod
    def known(self, path: str) -> Known: ...

    @abstractmethod
    def _write(self, path: str, data: bytes) -> bytes | None: ...

    @abstractmethod
    def _remove(self, path: str) -> None: ...

    @abstractmethod
    def _move(self, old: str, new: str) -> None: ...

    def directories(self) -> list[str]:
        """All directories except the folder itself."""
        ways = (path.split("/")[:-1] for path in self.files)
        return sorted({"/".join(way[: end + 1]) for way in ways for end in range(len(way))})

    def write(self, path: str, data: bytes) -> None:
        """Create or change a file."""
        stored = self._write(path, data)
        self.files[path] = data if stored is None else stored

    def remove(self, path: str) -> None:
        """Remove a file or a directory."""
        self._remove(path)
        for gone in self._at(path):
            del self.files[gone]

    def move(self, old: str, new: str) -> None:
        """Move a file or a directory to a free path."""
        self._move(old, new)
        for path in self._at(old):
            self.files[new + path.removeprefix(old)] = self.files.pop(path)

    def _at(self, path: str) -> list[str]:
        return [one for one in self.files if one == path or one.startswith(path + "/")]


@dataclass
class Disk(Folder):
    """A directory. File times are hours ago and differ at each write, so that stamps are trusted and change."""

    root: Path
    _ticks: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def source(self) -> dict[str, Any]:
        return {"source": {"kind": "local", "path": str(self.root)}}

    @property
    def may_hold_removals(self) -> bool:
        return True

    def known(self, path: str) -> Known:
        return Known(path.encode(), f"/{path}", None, None)

    def _write(self, path: str, data: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        if not self.fresh:
            then = time.time() - 36_000 + 0.01 * next(self._ticks)
            os.utime(file, (then, then))

    def _remove(self, path: str) -> None:
        if (self.root / path).is_dir():
            shutil.rmtree(self.root / path)
        else:
            (self.root / path).unlink()

    def _move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)


@dataclass
class Bucket(Folder):
    """A prefix of a bucket."""

    endpoint_url: str
    bucket: str
    prefix: str

    @property
    def source(self) -> dict[str, Any]:
        return {"source": {"kind": "s3", "bucket": self.bucket, "prefix": self.prefix}}

    @property
    def may_hold_removals(self) -> bool:
        return True

    def known(self, path: str) -> Known:
        return Known(path.encode(), f"/{path}", None, None)

    def _write(self, path: str, data: bytes) -> None:
        s3_client(self.endpoint_url).put_object(Bucket=self.bucket, Key=f"{self.prefix}/{path}", Body=data)

    def _remove(self, path: str) -> None:
        for one in self._at(path):
            s3_client(self.endpoint_url).delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{one}")

    def _move(self, old: str, new: str) -> None:
        for one in self._at(old):
            self._write(new + one.removeprefix(old), self.files[one])
        self._remove(old)


@dataclass
class Tree(Folder):
    """A folder node below another node, which the tool does not know."""

    client: httpx.Client
    number: int
    _nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        above = self._post({"id": f"above-{self.number}", "name": "above", "type": "folder"})
        self._nodes[""] = self._post({"name": "folder", "type": "folder", "parent_id": above["id"]})

    @property
    def source(self) -> dict[str, Any]:
        return {"node_id": self._nodes[""]["id"]}

    @property
    def may_hold_removals(self) -> bool:
        return False

    def known(self, path: str) -> Known:
        node = self._nodes[path]
        names = path.split("/")
        ids = [self._nodes["/".join(names[: end + 1])]["id"] for end in range(len(names))]
        type_ = None if node["type"] == "file" else node["type"]
        return Known(node["id"].encode(), "/".join([self._nodes[""]["id_path"], *ids]), node["id"], type_)

    def upload(self, files: dict[str, bytes], folder: str) -> None:
        """Write files of one directory in one upload."""
        parts = [("files", (path.rpartition("/")[2], data)) for path, data in files.items()]
        where = {"parent_id": self._folder(folder)["id"]}
        items = checked(self.client.post(f"/api/projects/{PROJECT}/uploads", files=parts, data=where), 200)["items"]
        for (path, data), item in zip(files.items(), items, strict=True):
            assert item["outcome"] == ("updated" if path in self._nodes else "created"), item
            self._nodes[path] = checked(self.client.get(f"{NODES}/{item['file_id']}"), 200)
            self.files[path] = data

    def _write(self, path: str, data: bytes) -> bytes | None:
        folder, _, name = path.rpartition("/")
        node = self._nodes.get(path)
        type_ = node["type"] if node else stated_type(name)
        inline = type_ == "json" and _parsed(data) is not None
        if (type_ == "json" and not inline) or b"\0" in data:
            # Invalid JSON and binary data can only be uploaded.
            self.upload({path: data}, folder)
            return None
        content = _parsed(data) if inline else data.decode()
        if node:
            self._nodes[path] = checked(self.client.patch(f"{NODES}/{node['id']}", json={"content": content}), 200)
        else:
            where = {"parent_id": self._folder(folder)["id"]}
            self._nodes[path] = self._post({"name": name, "type": type_, "content": content, **where})
        return json.dumps(content, indent=2, ensure_ascii=False).encode() if inline else None

    def _remove(self, path: str) -> None:
        checked(self.client.delete(f"{NODES}/{self._nodes[path]['id']}"), 202)
        for one in [one for one in self._nodes if one == path or one.startswith(path + "/")]:
            del self._nodes[one]

    def _move(self, old: str, new: str) -> None:
        (old_folder, _, _), (folder, _, name) = old.rpartition("/"), new.rpartition("/")
        body: dict[str, Any] = {"name": name} if name != old.rpartition("/")[2] else {}
        if folder != old_folder:
            body["parent_id"] = self._folder(folder)["id"]
        moved = checked(self.client.patch(f"{NODES}/{self._nodes[old]['id']}", json=body), 200)
        for one in [one for one in self._nodes if one == old or one.startswith(old + "/")]:
            self._nodes[new + one.removeprefix(old)] = self._nodes.pop(one)
        self._nodes[new] = moved

    def _folder(self, path: str) -> dict[str, Any]:
        if path not in self._nodes:
            above, _, name = path.rpartition("/")
            self._nodes[path] = self._post({"name": name, "type": "folder", "parent_id": self._folder(above)["id"]})
        return self._nodes[path]

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        return checked(self.client.post(NODES, json=body), 201)


def _parsed(data: bytes) -> Any:
    """The value of JSON; None for invalid JSON, and for `null`, which the machine never writes."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def tool_over(client: httpx.Client, folder: Folder, config: dict[str, Any]) -> str:
    """Create a tool over a folder. Returns its id."""
    body = {"project_id": PROJECT, **folder.source, "config": config}
    return str(checked(client.post(TOOLS, json=body), 202)["tool_id"])
