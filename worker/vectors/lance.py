"""Rows in LanceDB, embedded: one table a namespace in one directory, shared by any number of processes.

Six rules hold here; each was seen to lose or double rows, or to crash, when broken. `id` is a declared primary key, or
concurrent merges duplicate rows silently. Nothing is opened before a fork. A write is one commit for all its rows. Only
`optimize` compacts, from one place, and is repeated on a conflict. A table appears whole, with its indexes, or not at
all. Every call opens the table anew (1 ms), so that it sees what other processes wrote, dropped and made again.

Vectors are compared one by one: exact, 24 ms for 100,000 rows of 384 dimensions. An approximate index would take 40 s
to build at that size and loses 2 % of the hits; larger installations have Turbopuffer.
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

from schemas.errors import StoreRefused, StoreUnavailable
from worker.keywords import Keywords
from worker.vectors import STRING_ATTRIBUTES, Condition, Found, Leg, Patch, Row, Value, Vector, cut
from worker.vectors.rows import attributes, can_match, check, clean, matrix, ranked, storable, words

T = TypeVar("T")

# A compaction that loses a race is repeated here, so it is no news; the library reads this once, when imported.
os.environ.setdefault("LANCEDB_LOG", "warn,lance::dataset::optimize=error")

#: Commits that lose a race are tried this often, with pauses of up to so many seconds (doubling from the first).
ATTEMPTS, FIRST_PAUSE_S, LONGEST_PAUSE_S = 10, 0.02, 1.0
#: Versions of a table that may still be read by someone are kept so long.
KEEP_VERSIONS = timedelta(minutes=10)
#: Ids in one expression, whose text is parsed.
MAX_IDS = 4_000
#: The columns of keywords; tables of an earlier release lack the second until they are written to.
FIELDS = ("keywords", "code")
#: Rows fetched beyond the limit, so that it cuts between equal values by id and not by chance.
TIES = 64


class LanceStore:
    """The vector store that needs no account. Threads may share one; a process opens its own after any fork."""

    def __init__(self, directory: Path, *, has_keywords: bool) -> None:
        self._directory = directory
        self._has_keywords = has_keywords
        self._lock = threading.Lock()
        self._connection: tuple[int, Any] | None = None

    @property
    def has_keywords(self) -> bool:
        """Whether keyword legs run here."""
        return self._has_keywords

    def write(
        self,
        namespace: str,
        dimensions: int,
        upserts: Sequence[Row] = (),
        patches: Sequence[Patch] = (),
        deletes: Sequence[UUID] = (),
    ) -> None:
        """Apply all of it, a commit for each kind. Raises StoreRefused or StoreUnavailable: repeat the call then."""
        check(upserts, patches, deletes)
        data = _upsert_table(upserts, dimensions, has_keywords=self._has_keywords) if upserts else None
        if data is not None and not self._path(namespace).exists():
            self._create(namespace, data.schema)
        with self._table(namespace) as table:
            if table is None:
                return
            if self._has_keywords:
                _commit(partial(_add_code, table))
            if data is not None:
                _require_dimensions(table, dimensions)
                merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                _commit(partial(merge.execute, data))
            for some in _patch_tables(patches, table.schema, has_keywords=self._has_keywords):
                _commit(partial(table.merge_insert("id").when_matched_update_all().execute, some))
            for start in range(0, len(deletes), MAX_IDS):
                gone = _in("id", [str(id_) for id_ in deletes[start : start + MAX_IDS]])
                _commit(partial(table.delete, gone))

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[list[Found]]:
        """One ranking per leg, equal values by id. Raises StoreRefused or StoreUnavailable."""
        asked = [can_match(leg, has_keywords=self._has_keywords) for leg in legs]
        with self._table(namespace) as table:
            return [
                _find(table, leg) if table is not None and ask else [] for leg, ask in zip(legs, asked, strict=True)
            ]

    def ids(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        """Return the next `limit` ids in ascending order; fewer only at the end. Raises StoreUnavailable."""
        from lancedb.query import ColumnOrdering

        with self._table(namespace) as table:
            if table is None:
                return []
            query = table.search().select(["id"]).order_by([ColumnOrdering(column_name="id")]).limit(limit)
            query = query if after is None else query.where(f"id > '{after}'")
            return [UUID(id_) for id_ in query.to_arrow()["id"].to_pylist()]

    def vectors(self, namespace: str, ids: Sequence[UUID]) -> dict[UUID, Vector]:
        """Return the vectors of those ids that have one. Raises StoreUnavailable."""
        found: dict[UUID, Vector] = {}
        with self._table(namespace) as table:
            for start in range(0, len(ids) if table is not None else 0, MAX_IDS):
                some = _in("id", [str(id_) for id_ in ids[start : start + MAX_IDS]])
                rows = table.search().where(f"{some} AND embedded").select(["id", "vector"]).limit(MAX_IDS).to_arrow()
                cells = rows["vector"].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
                found |= {UUID(id_): cell for id_, cell in zip(rows["id"].to_pylist(), cells, strict=True)}
        return found

    def drop(self, namespace: str) -> None:
        """Delete the namespace with all its rows, and whatever a late writer left of it. Raises StoreUnavailable."""
        grave = self._directory / f".dropped-{uuid4().hex}"
        path = self._path(namespace)
        with _mapped(path):
            try:
                path.rename(grave)
            except FileNotFoundError:
                return
            shutil.rmtree(grave)

    def optimize(self, namespace: str) -> None:
        """Merge small files, index new rows, remove old versions. Raises StoreUnavailable while writers always win."""
        with self._table(namespace) as table:
            if table is not None:
                _index_code(table)
                _commit(partial(table.optimize, cleanup_older_than=KEEP_VERSIONS))

    @contextmanager
    def _table(self, namespace: str) -> Iterator[Any]:
        """Yield the table, or None where there is none."""
        path = self._path(namespace)
        connection = self._connect() if path.exists() else None
        with _mapped(path):
            yield connection.open_table(namespace) if connection is not None else None

    def _path(self, namespace: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9\-_.]{1,128}", namespace):
            raise StoreRefused(f"{namespace!r} is not a namespace; use letters, digits and - _ . only.")
        return self._directory / f"{namespace}.lance"

    def _connect(self) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = os.getpid(), _open(self._directory)
            if self._connection[0] != os.getpid():
                raise RuntimeError("this LanceStore was used before the fork; make a new one in each process")
            return self._connection[1]

    def _create(self, namespace: str, schema: Any) -> None:
        """Build the empty table with its indexes aside and move it to its place, unless another process was first."""
        staging = self._directory / f".new-{uuid4().hex}"
        with _mapped(staging):
            staging.mkdir(parents=True)
            try:
                _build(staging, namespace, schema)
                (staging / f"{namespace}.lance").rename(self._path(namespace))
            except OSError as error:
                if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                    raise
            finally:
                shutil.rmtree(staging)


def _open(directory: Path) -> Any:
    import lancedb

    return lancedb.connect(directory, read_consistency_interval=timedelta(0))


def _build(directory: Path, namespace: str, schema: Any) -> None:
    from lancedb.index import FTS, BTree

    table = _open(directory).create_table(namespace, schema=schema)
    # without it, patches take 118 ms at 200,000 rows, and with it 5 ms
    table.create_index("id", config=BTree())
    if "keywords" in schema.names:
        # words of all scripts, and also cut at "_" and "."; rows not indexed yet are searched along
        text = FTS(
            base_tokenizer="icu/split", language="English", stem=True, remove_stop_words=False, with_position=False
        )
        table.create_index("keywords", config=text)
        _index_code(table)


def _add_code(table: Any) -> None:
    """Give a table of an earlier release the field it lacks; until it is indexed, its rows are read one by one."""
    import pyarrow as pa

    if "keywords" in table.schema.names and "code" not in table.schema.names:
        table.add_columns(pa.field("code", pa.string()))


def _index_code(table: Any) -> None:
    from lancedb.index import FTS

    if "code" in table.schema.names and not any("code" in index.columns for index in table.list_indices()):
        # its tokens were made before
        code = FTS(
            base_tokenizer="whitespace", max_token_length=None, stem=False, remove_stop_words=False, with_position=False
        )
        table.create_index("code", config=code)


def _schema(dimensions: int, *, has_keywords: bool) -> Any:
    import pyarrow as pa

    key = {"lance-schema:unenforced-primary-key": "true"}
    fields = [pa.field("id", pa.string(), nullable=False, metadata=key)]
    fields += [pa.field("vector", pa.list_(pa.float32(), dimensions))]
    fields += [pa.field(name, pa.string()) for name in STRING_ATTRIBUTES]
    fields += [pa.field("level", pa.int64()), pa.field("embedded", pa.bool_())]
    return pa.schema([*fields, *(pa.field(name, pa.string()) for name in FIELDS)] if has_keywords else fields)


def _upsert_table(rows: Sequence[Row], dimensions: int, *, has_keywords: bool) -> Any:
    import pyarrow as pa

    schema = _schema(dimensions, has_keywords=has_keywords)
    values = [attributes(row) for row in rows]
    columns: dict[str, Any] = {name: [row[name] for row in values] for name in values[0]}
    columns["id"] = [str(row.id) for row in rows]
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(matrix(rows, dimensions).ravel()), dimensions)
    columns |= {name: [_field(row.keywords, name) for row in rows] for name in FIELDS}
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _patch_tables(patches: Sequence[Patch], schema: Any, *, has_keywords: bool) -> Iterator[Any]:
    """Yield a table for each set of columns that is patched: a merge changes the columns it is given."""
    import pyarrow as pa

    groups: dict[tuple[str, ...], list[dict[str, Value]]] = defaultdict(list)
    for patch in patches:
        row = {name: storable(value) for name, value in patch.attributes.items()}
        if has_keywords and patch.keywords is not None:
            row |= {name: _field(patch.keywords, name) for name in FIELDS}
        groups[tuple(sorted(row))].append({"id": str(patch.id), **row})
    for names, rows in groups.items():
        yield pa.Table.from_pylist(rows, schema=pa.schema([schema.field(name) for name in ("id", *names)]))


def _field(keywords: Keywords | None, name: str) -> str | None:
    if keywords is None:
        return None
    return keywords.code if name == "code" else keywords.text


def _require_dimensions(table: Any, dimensions: int) -> None:
    has = table.schema.field("vector").type.list_size
    if has != dimensions:
        raise StoreRefused(f"The namespace holds vectors of {has} numbers, not {dimensions}; use another namespace.")


def _find(table: Any, leg: Leg) -> list[Found]:
    return _by_keywords(table, leg) if leg.vector is None else _by_vector(table, leg)


def _by_keywords(table: Any, leg: Leg) -> list[Found]:
    from lancedb.query import MatchQuery

    column = "code" if leg.field == "code" else "keywords"
    if column not in table.schema.names:
        return []
    # a match query takes its text as words only, whatever operators stand in it
    found = _rows(table.search(MatchQuery(words(leg), column), query_type="fts"), leg, ["id", "_score"])
    return ranked(zip(*found.values(), strict=True), descending=True)[: leg.limit]


def _by_vector(table: Any, leg: Leg) -> list[Found]:
    """The nearest rows that have a vector. A filter takes longer than the search, and hardly ever leaves a row out."""

    def nearest(*conditions: str) -> dict[str, list[Any]]:
        query = table.search(leg.vector, vector_column_name="vector").distance_type("cosine")
        return _rows(query, leg, ["id", "_distance", "embedded"], *conditions)

    found = nearest()
    if not all(found["embedded"]):
        found = nearest("embedded")
    return ranked(zip(found["id"], found["_distance"], strict=True), descending=False)[: leg.limit]


def _rows(query: Any, leg: Leg, columns: list[str], *conditions: str) -> dict[str, list[Any]]:
    """The columns of a leg's rows, with some beyond its limit."""
    where = [*map(_sql, leg.conditions), *conditions]
    if where:
        query = query.where(" AND ".join(where), prefilter=True)
    found = query.select(columns).limit(leg.limit + TIES).to_arrow().to_pydict()
    return {column: found[column] for column in columns}


def _sql(condition: Condition) -> str:
    values = [cut(clean(value)) if isinstance(value, str) else value for value in condition.values]
    if condition.op == "in":
        return _in(condition.attribute, values)
    return f"({' OR '.join(_below(condition.attribute, value) for value in values)})"


def _below(name: str, value: str | int) -> str:
    # "0" follows "/", so the range is exactly the values that start with the prefix and "/"
    low, high = _literal(f"{value}/"), _literal(f"{value}0")
    return f"{name} = {_literal(value)} OR ({name} >= {low} AND {name} < {high})"


def _in(name: str, values: Sequence[str | int]) -> str:
    return f"{name} IN ({', '.join(map(_literal, values))})"


def _literal(value: str | int) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


def _commit(action: Callable[[], T]) -> T:
    """Do `action`, again and again while it loses races against other writers."""
    pause = FIRST_PAUSE_S
    for _ in range(ATTEMPTS - 1):
        try:
            return action()
        except RuntimeError:
            # LanceDB has no class of its own for a lost race, nor is any other error of a commit known to be final
            time.sleep(random.uniform(0, pause))  # noqa: S311 - spreads writers out, hides nothing
            pause = min(2 * pause, LONGEST_PAUSE_S)
    return action()


@contextmanager
def _mapped(path: Path) -> Iterator[None]:
    """Turn LanceDB's errors, which are plain Python ones, into StoreErrors; `path` is what it works on.

    Its texts name paths of the machine that built it, so they stay in the cause.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if not path.exists():
            raise StoreUnavailable("The namespace was dropped meanwhile; try again.") from error
        raise StoreRefused("LanceDB refuses these rows or this filter; the log has its reason.") from error
    except (OSError, RuntimeError) as error:
        raise StoreUnavailable("LanceDB failed; check space and rights of its directory, then try again.") from error
