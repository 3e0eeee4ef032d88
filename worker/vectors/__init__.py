"""The seam to the vector store: one namespace of rows with a vector, keywords and filterable attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from worker.tokens.keywords import Keywords

Vector = NDArray[np.float32]
Value = str | int | bool | None

#: Filterable string attributes of every row; besides them stand `level` and `generation` (int) and `embedded` (bool).
STRING_ATTRIBUTES = (
    "file_node_id",
    "file_id_path",
    "file_name",
    "file_type",
    "json_pointer",
    "content_hash",
    "chunk_id",
    "language",
    "symbol",
    "node_type",
    "scope",
)

#: What a row says of its file and chunk.
CHECKED_ATTRIBUTES = (*STRING_ATTRIBUTES, "level")

#: Filterable values are cut at this many UTF-8 bytes: the store takes 4 KiB, an index needs far fewer.
MAX_FILTERABLE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One chunk in the store. `vector` is None for a row that is only found by keywords (`embedded: false`).

    A row that is there already with a greater `generation` stays as it is.
    """

    id: UUID
    vector: Vector | None
    attributes: dict[str, Value]
    keywords: Keywords | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Patch:
    """New attribute values of an existing row, and new keywords: None leaves them as they are.

    An unknown id is ignored, and so is a row with a greater `generation`: whatever a late writer still sends, the row
    says what the latest claim of its file found.
    """

    id: UUID
    attributes: dict[str, Value]
    keywords: Keywords | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter; all conditions of a leg must hold.

    "in": the attribute equals one of `values`; "prefix": it is one of them, or starts with one and "/"; "suffix": it
    ends with one, of ASCII letters, digits, ".", "+" and "-" alone. Rows of `ids` pass as well, whatever their
    attribute is. Without `values` none passes.
    """

    attribute: str
    op: Literal["in", "prefix", "suffix"]
    values: Sequence[str | int]
    ids: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True)
class Leg:
    """One ranked search: by vector (cosine), or by keywords (BM25, any of the words) in one field of them.

    `keywords` are the query as it was asked; in the field "code" its words are taken apart as those of the rows were.
    """

    limit: int
    vector: Vector | None = None
    keywords: str | None = None
    field: Literal["text", "code"] = "text"
    conditions: Sequence[Condition] = ()


class Found(NamedTuple):
    """A row of a leg's answer, best first. Vector leg: `value` is the cosine distance; keyword leg: the BM25 score.

    `id` is the row's id as `str` writes it: a `UUID` takes ten times as long to hash, and a search does so 2,000 times.
    """

    id: str
    value: float


class VectorStore(Protocol):
    """A vector store, opened once per process after any fork.

    A namespace exists from its first write on; reading or deleting a missing one is no error and finds nothing.
    Foreign errors are mapped to `StoreError`.
    """

    @property
    def has_keywords(self) -> bool:
        """Whether keyword legs run here (`KEYWORD_INDEX=store`) or in Postgres."""
        ...

    def write(
        self,
        namespace: str,
        dimensions: int,
        upserts: Sequence[Row] = (),
        patches: Sequence[Patch] = (),
        deletes: Sequence[UUID] = (),
    ) -> None:
        """Apply all of it; repeating the same call changes nothing. No id may appear twice in one call."""
        ...

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[list[Found]]:
        """One ranking per leg, over every row written so far."""
        ...

    def ids(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        """The next ids in ascending order, for reconciliation."""
        ...

    def attributes(self, namespace: str, after: UUID | None, limit: int) -> dict[UUID, dict[str, Value]]:
        """The filterable strings and the level of the next rows, in ascending order of their ids."""
        ...

    def vectors(self, namespace: str, ids: Sequence[UUID]) -> dict[UUID, Vector]:
        """The vectors of those of the ids that are there and have one, read only: what was paid for is not lost."""
        ...

    def drop(self, namespace: str) -> bool:
        """Delete the namespace with all its rows; whether it was there."""
        ...

    def optimize(self, namespace: str) -> None:
        """Compact and index what was written; called from one place at a time."""
        ...


def cut(value: str) -> str:
    """`value` cut to `MAX_FILTERABLE_BYTES` of UTF-8 at a character's border."""
    raw = value.encode()
    return value if len(raw) <= MAX_FILTERABLE_BYTES else raw[:MAX_FILTERABLE_BYTES].decode(errors="ignore")
