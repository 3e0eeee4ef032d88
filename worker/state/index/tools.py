"""Rows of `search_tool` and `search_index`.

A tool is a user's handle. An index is a folder embedded with one configuration, and tools share it.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from psycopg import Connection
from psycopg.errors import LockNotAvailable
from psycopg.rows import class_row
from psycopg.types.json import Jsonb
from pydantic import ValidationError

from schemas.content.source import AnySource, parsed_source
from schemas.errors import ReleaseBehind, TooManyTools
from schemas.queries.metadata import PLAIN, MetadataView
from schemas.release import RELEASE
from schemas.status import TaskKind
from schemas.tool import IndexSettings, Tool, ToolConfig
from worker.formats.by_name import plain_type
from worker.state.access import acl
from worker.state.index import index_switch, namespaces, tasks
from worker.state.index.chunks import LATE_WRITE
from worker.state.index.delete_queue import LONGEST_PAUSE
from worker.state.pool import Pool, again_if_locked, autocommit
from worker.state.queries import is_true, load

#: Turbopuffer's limit for the length of a namespace's name.
MAX_NAMESPACE = 128
#: Suffix of a namespace of summaries after the name of its index's namespace.
TREE = ".tree"
#: Seconds after which a purge leaves the rest to the next sweep, because other steps wait.
PURGE_SECONDS = 0.5
#: Maximum number of projects in one list.
MAX_PROJECTS = 1000
#: Maximum bytes of configs and sources on a page of tools. One tool has up to 210 kB.
MAX_PAGE_BYTES = 2 << 20

_SQL = load("index/tools")
_PLAIN = re.compile(r"[A-Za-z0-9-]{1,48}|h\.[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Index:
    """A folder embedded one way. `url_template`, `metadata` and `tool_id` belong to the tool that found it."""

    id: UUID
    project_id: str
    source: AnySource
    folder_node_id: str | None
    settings: IndexSettings
    vector_store: str
    keyword_index: str
    namespace: str
    epoch: int
    #: Id of the key whose hashes replace words, names and paths in the store; None: it has readable text.
    text_key: str | None = None
    url_template: str | None = None
    metadata: MetadataView = PLAIN
    tool_id: UUID | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", parsed_source(self.source))
        object.__setattr__(self, "settings", IndexSettings.model_validate(self.settings))
        object.__setattr__(self, "metadata", MetadataView.model_validate(self.metadata))

    @property
    def types(self) -> frozenset[str]:
        """The file types to which `config.types` restricts a folder; empty: all types, as for a single node."""
        return restricting_types(self.folder_node_id, self.settings)


def restricting_types(folder_node_id: str | None, settings: IndexSettings) -> frozenset[str]:
    """See `Index.types`."""
    return frozenset(map(plain_type, () if folder_node_id is None else settings.types))


@dataclass(frozen=True, slots=True)
class SearchableTool:
    """A tool and the index it answers from."""

    tool_id: UUID
    name: str
    index: Index


@dataclass(frozen=True, slots=True)
class ToolOver:
    """A tool over a source. `is_new`: it was created now; `task_id` is its task, if that must be sent."""

    tool_id: UUID
    name: str
    is_new: bool = False
    task_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewIndex:
    """The requirements of a tool. Tools share an existing index that meets all of them."""

    project_id: str
    source: AnySource
    folder_node_id: str | None
    settings: IndexSettings
    vector_store: str
    keyword_index: str
    namespace_prefix: str = ""
    text_key: str | None = None

    @property
    def identity(self) -> str:
        """A string that is equal for two tools exactly if they share an index."""
        parts = [self.source.model_dump(), self.settings.identity, self.keyword_index, *filter(None, [self.text_key])]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True)
class BuriedIndex:
    """A deleted index whose rows and vectors are being deleted; `final` once no late write is possible."""

    id: UUID
    namespace: str
    keyword_index: str
    final: bool
    #: Namespaces derived from the index, such as its summaries'.
    derived: list[str]


def hashed(text: str) -> str:
    """Return the form in which a namespace contains an id that is not plain."""
    return f"h.{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def namespace(new_index: NewIndex, suffix: UUID | None = None) -> str:
    """Return the namespace's name: plain for the first index of a folder ever, with the index's id for later ones."""
    target = new_index.source.content_node or new_index.folder_node_id or ""
    kind = "node" if new_index.folder_node_id is None else "folder"
    ids = [i if _PLAIN.fullmatch(i) else hashed(i) for i in (new_index.project_id, target)]
    tail = f"_{suffix}" if suffix else ""
    project, prefix = hashed(new_index.project_id), new_index.namespace_prefix
    # the index's id is enough to distinguish two folders
    spellings = (
        f"{prefix}project_{ids[0]}_{kind}_{ids[1]}{tail}",
        f"{prefix}project_{project}_{kind}_{hashed(target)}{tail}",
        f"{prefix}project_{project}_{kind}{tail}",
    )
    return next(name for name in spellings if len(name) <= MAX_NAMESPACE - len(TREE))


@again_if_locked
def create(
    pool: Pool, new_index: NewIndex, *, name: str, config: ToolConfig, most: int | None = None
) -> tuple[UUID, UUID | None]:
    """Find or create the index, and create tool and task, in one transaction.

    Returns the tool's id, and the task's unless one is already open. Raises `TooManyTools` if the project has `most`.
    """
    with pool.connection() as connection:
        index_switch.lock_project(connection, new_index.project_id)
        return _insert(connection, new_index, name, config, most)


def create_over_whole(
    pool: Pool, new_index: NewIndex, *, name: str, config: ToolConfig, most: int | None = None
) -> ToolOver:
    """Like `create`, unless `over_whole` finds a tool. Among concurrent callers, one creates it."""
    return _create_unless(pool, "over_whole", new_index, name, config, most)


def create_over_source(
    pool: Pool, new_index: NewIndex, *, name: str, config: ToolConfig, most: int | None = None
) -> ToolOver:
    """Like `create`, unless the project has a tool over the source. Among concurrent callers, one creates it."""
    return _create_unless(pool, "over_source", new_index, name, config, most)


@again_if_locked
def _create_unless(
    pool: Pool, query: str, new_index: NewIndex, name: str, config: ToolConfig, most: int | None
) -> ToolOver:
    """Create a tool unless `query` finds one."""
    with pool.connection() as connection:
        index_switch.lock_project(connection, new_index.project_id)
        found = _over(connection, query, new_index.project_id, new_index.source, config)
        if found is not None:
            return found
        tool_id, task_id = _insert(connection, new_index, name, config, most)
        return ToolOver(tool_id, name, is_new=True, task_id=task_id)


def over_whole(pool: Pool, project_id: str, source: AnySource, config: ToolConfig) -> ToolOver | None:
    """Return the oldest tool that indexes all of a source and whose config includes `config`'s changes, if any."""
    with pool.connection() as connection:
        return _over(connection, "over_whole", project_id, source, config)


def first_precision(pool: Pool, project_id: str, source: AnySource, model: str) -> str | None:
    """Return the precision of the oldest index of a source by a model; None if there is no index."""
    row = _of_source(pool, "first_precision", source, project_id=project_id, model=model)
    return None if row is None else str(row[0])


def newest_local_model(pool: Pool, project_id: str, source: AnySource) -> tuple[str, str | None] | None:
    """Return the local model of a source's newest index, and the reason for its choice; None without such an index."""
    return _of_source(pool, "newest_local_model", source, project_id=project_id)


def first_keyword_index(pool: Pool, project_id: str, source: AnySource, vector_store: str) -> str | None:
    """Return where the oldest index of a source in a store keeps its keywords; None if there is no index."""
    row = _of_source(pool, "first_keyword_index", source, project_id=project_id, vector_store=vector_store)
    return None if row is None else str(row[0])


def newest_file_stems(pool: Pool, project_id: str, source: AnySource, model: str) -> bool | None:
    """Return `file_stems` of the newest index of a source with this model; None if there is no index."""
    row = _of_source(pool, "newest_file_stems", source, project_id=project_id, model=model)
    return None if row is None else bool(row[0])


def newest_text_key(pool: Pool, project_id: str, source: AnySource, vector_store: str) -> tuple[str | None] | None:
    """Return the `text_key` of the newest index of a source in a store as a 1-tuple; None if there is no index."""
    return _of_source(pool, "newest_text_key", source, project_id=project_id, vector_store=vector_store)


def _of_source(pool: Pool, name: str, source: AnySource, **values: str) -> tuple[Any, ...] | None:
    with autocommit(pool) as connection:
        return connection.execute(_SQL[name], {**values, "source": Jsonb(source.model_dump())}).fetchone()


def any_busy(pool: Pool, tool_ids: Sequence[UUID]) -> bool:
    """Return whether the index of any of these tools has an open task."""
    with autocommit(pool) as connection:
        return is_true(connection, _SQL["any_busy"], {"tool_ids": list(tool_ids)})


def _over(
    connection: Connection[Any], query: str, project_id: str, source: AnySource, config: ToolConfig
) -> ToolOver | None:
    values = {"project_id": project_id, "source": Jsonb(source.model_dump()), "config": stored(config)}
    row = connection.execute(_SQL[query], values).fetchone()
    return None if row is None else ToolOver(*row)


def _insert(
    connection: Connection[Any], new_index: NewIndex, name: str, config: ToolConfig, most: int | None
) -> tuple[UUID, UUID | None]:
    """Create tool and task, while the project is locked. Raises `TooManyTools` if it has `most` already."""
    if most is not None and is_true(connection, _SQL["is_full"], {"project_id": new_index.project_id, "most": most}):
        raise TooManyTools(
            f"This project has {most} tools, and MAX_TOOLS allows no more; delete one, or ask the operator to raise it."
        )
    tool_id = uuid4()
    index_id, is_new = find_or_make(connection, new_index)
    values = {"id": tool_id, "project_id": new_index.project_id, "name": name, "config": stored(config)}
    source = {"node_id": new_index.source.content_node, "source": Jsonb(new_index.source.model_dump())}
    connection.execute(_SQL["insert_tool"], {**values, **source, "index_id": index_id})
    if lists := config.metadata_view.lists:
        acl.note_rules(connection, new_index.project_id, lists)
    task_id = tasks.create(
        connection,
        tool_id=tool_id,
        index_id=index_id,
        folder_node_id=new_index.folder_node_id,
        kind=TaskKind.CREATE if is_new else TaskKind.REINDEX,
    )
    if task_id is None:
        tasks.widen(connection, index_id, tool_id)
    return tool_id, task_id


def stored(config: ToolConfig) -> Jsonb:
    """Return a config as its column stores it: without default values."""
    return Jsonb(config.model_dump(exclude_defaults=True))


def find_or_make(connection: Connection[Any], new_index: NewIndex) -> tuple[UUID, bool]:
    """Return the index, locked until the transaction ends, and whether it was created now."""
    index_id = uuid4()
    values = {
        "id": index_id,
        "project_id": new_index.project_id,
        "identity": new_index.identity,
        "source": Jsonb(new_index.source.model_dump()),
        "folder_node_id": new_index.folder_node_id,
        "settings": Jsonb(new_index.settings.model_dump()),
        "vector_store": new_index.vector_store,
        "keyword_index": new_index.keyword_index,
        "text_key": new_index.text_key,
    }
    for name in (namespace(new_index), namespace(new_index, index_id)):
        row = connection.execute(_SQL["lock_index"], values).fetchone()
        if row is not None:
            return row[0], False
        if connection.execute(_SQL["insert_index"], {**values, "namespace": name}).rowcount:
            return index_id, True
    return find_or_make(connection, new_index)  # the same index was created between the query and the insert


def find(pool: Pool, new_index: NewIndex) -> UUID | None:
    """Return the index that a new tool would share, if there is one."""
    values = {"project_id": new_index.project_id, "identity": new_index.identity}
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["find_index"], values).fetchone()
        return row[0] if row else None


def get(pool: Pool, tool_id: UUID) -> Tool | None:
    """Return a tool with its index and the state of its newest task."""
    rows = _tools(pool, tool_id=tool_id, project_id=None, after_time=None, after_id=None, limit=1)
    return rows[0] if rows else None


def page(pool: Pool, project_id: str | None, after: tuple[datetime, UUID] | None, limit: int) -> list[Tool]:
    """List the tools of a project (None: of all projects), oldest first."""
    time, id_ = after or (None, None)
    return _tools(pool, tool_id=None, project_id=project_id, after_time=time, after_id=id_, limit=limit)


def fitting(pool: Pool, project_id: str | None, after: tuple[datetime, UUID] | None, limit: int) -> int:
    """Return how many of the next `limit` tools fit on a page of `MAX_PAGE_BYTES`: at least one."""
    time, id_ = after or (None, None)
    values = {"project_id": project_id, "after_time": time, "after_id": id_, "limit": limit}
    with autocommit(pool) as connection:
        row = connection.execute(_SQL["fitting"], values | {"most_bytes": MAX_PAGE_BYTES}).fetchone()
    return max(1, row[0] if row else 0)


def _tools(pool: Pool, **values: object) -> list[Tool]:
    with pool.connection() as connection, _readable():
        return connection.cursor(row_factory=class_row(Tool)).execute(_SQL["tools"], values).fetchall()


@contextmanager
def _readable() -> Iterator[None]:
    """Raise `ReleaseBehind` for a row with values that only a newer release knows."""
    try:
        yield
    except ValidationError as error:
        column = ".".join(map(str, error.errors()[0]["loc"]))
        raise ReleaseBehind(
            f"A newer release wrote this tool, and {RELEASE} cannot read its {column}; upgrade this process, and try "
            "again."
        ) from error


def index(pool: Pool, index_id: UUID) -> Index | None:
    """Return an index that is not deleted."""
    with pool.connection() as connection:
        return connection.cursor(row_factory=class_row(Index)).execute(_SQL["index"], {"index_id": index_id}).fetchone()


def index_of_tool(pool: Pool, tool_id: UUID) -> Index | None:
    """Return the index that a tool currently answers from; None if the tool is gone."""
    with autocommit(pool) as connection, _readable():
        cursor = connection.cursor(row_factory=class_row(Index))
        return cursor.execute(_SQL["index_of_tool"], {"tool_id": tool_id}).fetchone()


def searchable(pool: Pool, project_id: str, tool_ids: Sequence[UUID] | None = None) -> list[SearchableTool]:
    """Return a project's tools, those with these ids or all, newest first."""
    values = {"project_id": project_id, "tool_ids": None if tool_ids is None else list(tool_ids)}
    with autocommit(pool) as connection:
        rows = connection.execute(_SQL["searchable"], values).fetchall()
    with _readable():
        return [SearchableTool(tool_id, name, Index(*columns)) for tool_id, name, *columns in rows]


@again_if_locked
def delete(pool: Pool, tool_id: UUID) -> None:
    """Delete a tool, and delete its indexes unless another tool refers to them."""
    with pool.connection() as connection:
        tool = index_switch.lock_tool(connection, tool_id)
        if tool is None:
            return
        connection.execute(_SQL["delete_tool"], {"tool_id": tool_id})
        for index_id in (tool.index_id, tool.next_index_id):
            if index_id is not None:
                index_switch.bury(connection, index_id)


def delete_project(pool: Pool, project_id: str) -> list[str]:
    """Delete a project's tools, nodes, keys, grants and cached vectors. Returns the keys of its nodes' objects."""
    values = {"project_id": project_id}
    with pool.connection() as connection:
        tool_rows = connection.execute(_SQL["project_tools"], values).fetchall()
    for (tool_id,) in tool_rows:
        delete(pool, tool_id)
    return _delete_rows(pool, values)


@again_if_locked
def _delete_rows(pool: Pool, values: dict[str, str]) -> list[str]:
    with pool.connection() as connection:
        # nodes added at the same time would be deleted with their folder, and nobody would know of their objects
        index_switch.lock_project(connection, values["project_id"])
        connection.execute(_SQL["wait_for_vectors_and_keys"], values)
        rows = connection.execute(_SQL["delete_project_rows"], values).fetchall()
        return [key for (key,) in rows]


def projects(pool: Pool) -> list[str]:
    """Return the projects that have tools, at most `MAX_PROJECTS`."""
    with pool.connection() as connection:
        return [project for (project,) in connection.execute(_SQL["projects"], {"limit": MAX_PROJECTS}).fetchall()]


def project_exists(pool: Pool, project_id: str) -> bool:
    """Return whether the project has any node, tool or key."""
    with pool.connection() as connection:
        return is_true(connection, _SQL["project_exists"], {"project_id": project_id})


def list_buried(pool: Pool, vector_store: str, limit: int) -> list[BuriedIndex]:
    """Return deleted indexes of one vector store, the longest-waiting first."""
    values = {
        "vector_store": vector_store,
        "limit": limit,
        "late": LATE_WRITE,
        "longest": LONGEST_PAUSE,
    }
    with autocommit(pool) as connection:
        return connection.cursor(row_factory=class_row(BuriedIndex)).execute(_SQL["buried"], values).fetchall()


def purge(pool: Pool, index_id: UUID, *, final: bool) -> bool:
    """Delete the rows of a deleted index, its own row only if `final`; from then on its namespace name is checked.

    A large index takes several rounds, and so does one with rows that other transactions lock. Returns True after the
    last round.
    """
    steps = ["purge_tombstones", "purge_listing", "purge_chunks", "purge_files", *(["purge_index"] if final else [])]
    values = {"index_id": index_id, "pause": namespaces.FIRST_PAUSE}
    deadline = time.monotonic() + PURGE_SECONDS
    while steps and time.monotonic() < deadline:
        with suppress(LockNotAvailable), pool.connection() as connection:
            if not connection.execute(_SQL[steps[0]], values).rowcount:
                steps.pop(0)
    return not steps
