"""Converts rows to and from Arrow tables for LanceDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from worker.tokens.keywords import Keywords
from worker.vectors import STRING_ATTRIBUTES, Patch, Value, VectorRow
from worker.vectors.lance.filter_sql import is_in
from worker.vectors.lance.indexes import FIELDS
from worker.vectors.rows import column, matrix, storable

#: Maximum number of ids in one expression, because LanceDB parses its text.
MAX_IDS = 4_000
#: Columns that are stored uncompressed: compression saves 3 % of the disk, and takes a quarter of a write.
_AS_THEY_ARE = ("id", "chunk_id", "content_hash")
_UNCOMPRESSED = {"lance-encoding:compression": "none"}


def schema_of(dimensions: int, *, has_keywords: bool) -> Any:
    """Return the schema of a table."""
    import pyarrow as pa

    key = {"lance-schema:unenforced-primary-key": "true"}
    fields = [pa.field("id", pa.string(), nullable=False, metadata=key)]
    fields += [pa.field("vector", pa.list_(pa.float32(), dimensions))]
    fields += [pa.field(name, pa.string()) for name in STRING_ATTRIBUTES]
    fields += [pa.field("level", pa.int64()), pa.field("embedded", pa.bool_()), pa.field("generation", pa.int64())]
    fields += [pa.field(name, pa.string()) for name in FIELDS if has_keywords]
    return pa.schema([_encoded(field) for field in fields])


def _encoded(field: Any) -> Any:
    return field.with_metadata({**(field.metadata or {}), **_UNCOMPRESSED}) if field.name in _AS_THEY_ARE else field


def upsert_table(rows: Sequence[VectorRow], dimensions: int, *, has_keywords: bool) -> Any:
    """Return the rows as an Arrow table for LanceDB."""
    import pyarrow as pa

    schema = schema_of(dimensions, has_keywords=has_keywords)
    columns: dict[str, object] = {name: column(rows, name) for name in STRING_ATTRIBUTES}
    columns["id"] = [str(row.id) for row in rows]
    columns["level"] = [row.attributes.get("level") for row in rows]
    columns["embedded"] = [row.vector is not None for row in rows]
    columns["generation"] = [row.generation for row in rows]
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(matrix(rows, dimensions).ravel()), dimensions)
    columns |= {name: [_field(row.keywords, name) for row in rows] for name in FIELDS}
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def patched_rows(opened: Callable[[], Any], patches: Sequence[Patch], *, has_keywords: bool) -> Iterator[Any]:
    """Yield the existing rows, complete, with the patches applied.

    A conditional merge crashes the process's runtime if it gets only some columns and rows that were patched before.
    Another writer may change a row between this read and the merge. If its generation is the same, so are its values;
    if not, the merge's condition decides.
    """
    import pyarrow as pa

    for start in range(0, len(patches), MAX_IDS):
        values = {str(patch.id): _values(patch, has_keywords=has_keywords) for patch in patches[start:][:MAX_IDS]}
        dataset = opened()
        existing = dataset.scanner(filter=is_in("id", list(values))).to_table()
        rows = [values[id_] for id_ in existing["id"].to_pylist()]
        for name in {name for row in rows for name in row}:
            old, field = existing[name].to_pylist(), dataset.schema.field(name)
            new = pa.array([row.get(name, value) for row, value in zip(rows, old, strict=True)], field.type)
            existing = existing.set_column(dataset.schema.get_field_index(name), field, new)
        if rows:
            yield existing


def _values(patch: Patch, *, has_keywords: bool) -> dict[str, Value]:
    values = {name: storable(value) for name, value in patch.attributes.items()} | {"generation": patch.generation}
    if has_keywords and patch.keywords is not None:
        values |= {name: _field(patch.keywords, name) for name in FIELDS}
    return values


def _field(keywords: Keywords | None, name: str) -> str | None:
    if keywords is None:
        return None
    return keywords.code if name == "code" else keywords.text
