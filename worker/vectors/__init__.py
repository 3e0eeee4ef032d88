"""The interface to the vector store: a namespace of rows with a vector, keywords and filterable attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, overload
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from worker.tokens import MAX_CHARACTER_BYTES
from worker.tokens.keywords import IN_ENGLISH, Keywords

#: Keyword fields: natural language, and identifiers.
Field = Literal["text", "code"]
Vector = NDArray[np.float32]
Value = str | int | bool | None
#: Attributes of a row as its store keeps them: a third party's store has arrays of hashes instead of strings.
StoredAttributes = Mapping[str, Value | list[str]]

#: String attributes of every row. Rows also have `level` and `generation` (int) and `embedded` (bool).
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

#: String attributes that no search filters. A store need not index them.
UNFILTERED = frozenset({"content_hash", "chunk_id"})

#: String attributes that searches filter.
FILTERED = tuple(name for name in STRING_ATTRIBUTES if name not in UNFILTERED)

#: Attributes that describe a row's file and chunk; `worker.upkeep.fsck` checks them.
CHECKED_ATTRIBUTES = (*STRING_ATTRIBUTES, "level")

#: String values are cut to this many UTF-8 bytes. The store accepts 4 KiB; an index needs far less.
MAX_FILTERABLE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class VectorRow:
    """One chunk in the store. `vector` is None for a row that only keywords can find (`embedded: false`).

    An existing row with a greater `generation` is not overwritten.
    """

    id: UUID
    vector: Vector | None
    attributes: dict[str, Value]
    keywords: Keywords | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Patch:
    """New attribute values, and new keywords, of an existing row. `keywords` of None keeps the current ones.

    Unknown ids and rows with a greater `generation` are ignored. So a row always reflects the latest claim of its file,
    whatever a late writer still sends.
    """

    id: UUID
    attributes: dict[str, Value]
    keywords: Keywords | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter; all conditions of a leg must match.

    "in": the attribute equals one of `values`. "prefix": it equals one of them, or starts with one followed by "/".
    "suffix": it ends with one, which may contain only ASCII letters, digits, ".", "+" and "-". Rows whose id is in
    `ids` match regardless of their attribute. Without `values` no row matches.
    """

    attribute: str
    op: Literal["in", "prefix", "suffix"]
    values: Sequence[str | int]
    ids: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True)
class Leg:
    """One ranked search: by vector (cosine), or by keywords (BM25, any of the words) in one keyword field.

    `keywords` is the query's text. It is split into words as the rows are, in the `languages` of the index's documents.
    With `phrase`, a row must have every word, in any order.
    """

    limit: int
    vector: Vector | None = None
    keywords: str | None = None
    field: Field = "text"
    phrase: bool = False
    languages: frozenset[str] = IN_ENGLISH
    conditions: Sequence[Condition] = ()


class RankedRow(NamedTuple):
    """A row of a leg's answer. `value` is the cosine distance of a vector leg, the BM25 score of a keyword leg.

    Answers list the best row first. `id` is the row's id as `str` writes it: hashing a `UUID` takes ten times as long,
    and a search does that 2,000 times.
    """

    id: str
    value: float


class Ranked(Sequence[RankedRow]):
    """A leg's answer, best row first, as two columns: the `ids`, and the `values` of the rows.

    Caches hold many. The garbage collector visits each row of a list of rows, but no string and no number.
    """

    __slots__ = ("ids", "values")

    def __init__(self, ids: list[str], values: list[float]) -> None:
        self.ids, self.values = ids, values

    @classmethod
    def of(cls, rows: Sequence[RankedRow]) -> Ranked:
        """Return the rows as columns."""
        return rows if isinstance(rows, Ranked) else cls([row.id for row in rows], [row.value for row in rows])

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> RankedRow: ...

    @overload
    def __getitem__(self, at: slice) -> Ranked: ...

    def __getitem__(self, at: int | slice) -> RankedRow | Ranked:
        if isinstance(at, slice):
            return Ranked(self.ids[at], self.values[at])
        return RankedRow(self.ids[at], self.values[at])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Ranked):
            return self.ids == other.ids and self.values == other.values
        return list(self) == other

    __hash__ = None  # type: ignore[assignment] # as a list has none

    def __repr__(self) -> str:
        return repr(list(self))


class VectorStore(Protocol):
    """A vector store, opened once per process after any fork.

    A namespace exists from its first write. Reading or deleting a missing namespace finds nothing and raises no error.
    Foreign errors are mapped to `StoreError`.
    """

    @property
    def has_keywords(self) -> bool:
        """Whether the store runs keyword legs (`KEYWORD_INDEX=store`), not Postgres."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether searches run in this process, so that two calls cost as much as one call with the legs of both."""
        ...

    def write(
        self,
        namespace: str,
        dimensions: int,
        upserts: Sequence[VectorRow] = (),
        patches: Sequence[Patch] = (),
        deletes: Sequence[UUID] = (),
    ) -> None:
        """Apply all changes. Repeating the same call changes nothing. No id may appear twice in one call."""
        ...

    def search(self, namespace: str, legs: Sequence[Leg]) -> list[Ranked]:
        """Return one ranking per leg, over every row written so far."""
        ...

    def ids(self, namespace: str, after: UUID | None, limit: int) -> list[UUID]:
        """Return the next `limit` ids after `after`, in ascending order, for reconciliation."""
        ...

    def attributes(self, namespace: str, after: UUID | None, limit: int) -> dict[UUID, StoredAttributes]:
        """Return the `CHECKED_ATTRIBUTES` of the next rows, in ascending order of their ids."""
        ...

    def stored(self, namespace: str, attributes: Mapping[str, Value]) -> StoredAttributes:
        """Return the result of `attributes` for a row that was written with these values."""
        ...

    def vectors(self, namespace: str, ids: Sequence[UUID]) -> dict[UUID, Vector]:
        """Return the vectors of existing rows among the ids, read-only, so that paid vectors can be reused."""
        ...

    def drop(self, namespace: str) -> bool:
        """Delete the namespace with all its rows. Returns whether it existed."""
        ...

    def verify(self, namespace: str, most_bytes: int | None = None) -> None:
        """Look for damage in a namespace of at most `most_bytes`. Unreadable rows count as missing from then on."""
        ...

    def optimize(self, namespace: str, *, writing: bool = False) -> None:
        """Compact and index new rows. Called from one place at a time.

        While a run is `writing`, only urgent work is done; the rest waits until it ends.
        """
        ...


def cut_filterable(value: str) -> str:
    """Cut `value` to at most `MAX_FILTERABLE_BYTES` of UTF-8, at a character boundary."""
    if len(value) <= MAX_FILTERABLE_BYTES // MAX_CHARACTER_BYTES:
        return value
    raw = value.encode()
    return value if len(raw) <= MAX_FILTERABLE_BYTES else raw[:MAX_FILTERABLE_BYTES].decode(errors="ignore")
