"""Rows of `search_tool` and `search_index`: a user's handle, and the folder embedded one way that it shares."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from psycopg import Connection
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from schemas.source import AnySource, NodesSource
from schemas.status import TaskKind
from schemas.tool import IndexSettings, ToolConfig
from worker.state import Pool, load, tasks
from worker.state.chunks import LATE_WRITE

#: Turbopuffer's limit for the name of a namespace.
MAX_NAMESPACE = 128

_SQL = load("tools")
_PLAIN = re.compile(r"[A-Za-z0-9-]{1,48}|h\.[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Index:
    """A folder embedded one way."""

    id: UUID
    project_id: str
    source: dict[str, Any]
    folder_node_id: str | None
    settings: IndexSettings
    vector_store: str
    keyword_index: str
    namespace: str
    epoch: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", IndexSettings.model_validate(self.settings))


@dataclass(frozen=True, slots=True)
class NewIndex:
    """What a tool asks for; an index that has all of it already is shared."""

    project_id: str
    source: AnySource
    folder_node_id: str | None
    settings: IndexSettings
    vector_store: str
    keyword_index: str

    @property
    def identity(self) -> str:
        """Equal for two tools exactly when they share an index."""
        parts = [self.source.model_dump(), self.settings.model_dump(), self.keyword_index]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True)
class Buried:
    """A deleted index whose rows and vectors are on the way out; `final` once no late write is possible."""

    id: UUID
    namespace: str
    vector_store: str
    keyword_index: str
    final: bool


def hashed(text: str) -> str:
    """The form in which an id that is not plain stands in a namespace."""
    return f"h.{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def namespace(wanted: NewIndex, suffix: UUID | None = None) -> str:
    """The namespace's name: plain for a folder's first index, with the index's id where the plain one is taken."""
    target = wanted.source.node_id if isinstance(wanted.source, NodesSource) else wanted.folder_node_id or ""
    kind = "node" if wanted.folder_node_id is None else "folder"
    ids = [i if _PLAIN.fullmatch(i) else hashed(i) for i in (wanted.project_id, target)]
    tail = f"_{suffix}" if suffix else ""
    name = f"project_{ids[0]}_{kind}_{ids[1]}{tail}"
    if len(name) > MAX_NAMESPACE:
        name = f"project_{hashed(wanted.project_id)}_{kind}_{hashed(target)}{tail}"
    return name


def create(pool: Pool, wanted: NewIndex, *, name: str, config: ToolConfig) -> tuple[UUID, UUID | None]:
    """Index (or find it), tool and task in one transaction: the tool's id, and the task's unless one is running."""
    tool_id = uuid4()
    with pool.connection() as connection:
        index_id, is_new = _index(connection, wanted)
        connection.execute(
            _SQL["insert_tool"],
            {
                "id": tool_id,
                "project_id": wanted.project_id,
                "name": name,
                "index_id": index_id,
                "node_id": wanted.source.node_id if isinstance(wanted.source, NodesSource) else None,
                "source": Jsonb(wanted.source.model_dump()),
                "config": Jsonb(config.model_dump(exclude_defaults=True)),
            },
        )
        task_id = tasks.create(
            connection,
            tool_id=tool_id,
            index_id=index_id,
            folder_node_id=wanted.folder_node_id,
            kind=TaskKind.CREATE if is_new else TaskKind.REINDEX,
        )
    return tool_id, task_id


def _index(connection: Connection[Any], wanted: NewIndex) -> tuple[UUID, bool]:
    """The index, locked until the transaction ends, and whether it was made just now."""
    index_id = uuid4()
    values = {
        "id": index_id,
        "project_id": wanted.project_id,
        "identity": wanted.identity,
        "source": Jsonb(wanted.source.model_dump()),
        "folder_node_id": wanted.folder_node_id,
        "settings": Jsonb(wanted.settings.model_dump()),
        "vector_store": wanted.vector_store,
        "keyword_index": wanted.keyword_index,
    }
    for name in (namespace(wanted), namespace(wanted, index_id)):
        found = connection.execute(_SQL["lock_index"], values).fetchone()
        if found is not None:
            return found[0], False
        if connection.execute(_SQL["insert_index"], {**values, "namespace": name}).rowcount:
            return index_id, True
    return _index(connection, wanted)  # the same index was made between the look and the insert


def get(pool: Pool, tool_id: UUID) -> dict[str, Any] | None:
    """A tool with its index and the state of its newest task."""
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["tool"], {"tool_id": tool_id}).fetchone()


def page(pool: Pool, project_id: str | None, after: tuple[datetime, UUID] | None, limit: int) -> list[dict[str, Any]]:
    """Tools of a project (None: of all), oldest first."""
    time, id_ = after or (None, None)
    values = {"project_id": project_id, "after_time": time, "after_id": id_, "limit": limit}
    with pool.connection() as connection:
        return connection.cursor(row_factory=dict_row).execute(_SQL["tools"], values).fetchall()


def index(pool: Pool, index_id: UUID) -> Index | None:
    """An index that is not deleted."""
    with pool.connection() as connection:
        return connection.cursor(row_factory=class_row(Index)).execute(_SQL["index"], {"index_id": index_id}).fetchone()


def delete(pool: Pool, tool_id: UUID) -> None:
    """Delete a tool, and bury its index when no other tool refers to it."""
    values: dict[str, Any] = {"tool_id": tool_id}
    with pool.connection() as connection:
        found = connection.execute(_SQL["lock_tools_index"], values).fetchone()
        if found is None:
            return
        values["index_id"] = found[0]
        for query in ("delete_tool", "bury_index", "cancel_buried"):
            connection.execute(_SQL[query], values)


def delete_project(pool: Pool, project_id: str) -> list[str]:
    """Delete a project's tools, nodes, keys and cached vectors; the object keys its nodes leave behind."""
    values = {"project_id": project_id}
    with pool.connection() as connection:
        found = connection.execute(_SQL["project_tools"], values).fetchall()
    for (tool_id,) in found:
        delete(pool, tool_id)
    with pool.connection() as connection:
        rows = connection.execute(_SQL["delete_project_rows"], values).fetchall()
        return [key for (key,) in rows if key is not None]


def project_exists(pool: Pool, project_id: str) -> bool:
    """Whether anything was ever named with this project."""
    with pool.connection() as connection:
        row = connection.execute(_SQL["project_exists"], {"project_id": project_id}).fetchone()
        return row is not None and bool(row[0])


def buried(pool: Pool) -> list[Buried]:
    """Deleted indexes, the longest dead first."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(Buried))
        return cursor.execute(_SQL["buried"], {"late": LATE_WRITE}).fetchall()


def purge(pool: Pool, index_id: UUID, *, final: bool) -> None:
    """Delete the rows of a buried index, its own (which keeps the namespace's name) only when `final`."""
    values = {"index_id": index_id}
    while True:
        with pool.connection() as connection:
            if not connection.execute(_SQL["purge_chunks"], values).rowcount:
                break
    with pool.connection() as connection:
        connection.execute(_SQL["purge_files"], values)
        if final:
            connection.execute(_SQL["purge_index"], values)
