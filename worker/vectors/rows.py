"""Validates and truncates rows and legs, and orders answers, for all stores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from schemas.errors import StoreRefused
from schemas.wording import amount, noun
from worker.tokens.keywords import phrase_tokens, query_tokens
from worker.vectors import (
    CHECKED_ATTRIBUTES,
    STRING_ATTRIBUTES,
    Field,
    Leg,
    Patch,
    Ranked,
    Value,
    VectorRow,
    cut_filterable,
)

#: Maximum UTF-8 bytes of a full-text query, the same in all stores. Turbopuffer documents 8,192 without a unit; bytes
#: are the strictest reading.
MAX_KEYWORD_BYTES = 8_192


def check(upserts: Sequence[VectorRow], patches: Sequence[Patch], deletes: Sequence[UUID]) -> None:
    """Enforce the interface: no id twice in one call, no attribute outside the schema. Raises `ValueError`."""
    # compare numbers, because hashing a `UUID` takes ten times as long
    ids = [row.id.int for row in upserts] + [patch.id.int for patch in patches] + [id_.int for id_ in deletes]
    if len(set(ids)) < len(ids):
        raise ValueError("one write contains an id twice")
    allowed = {*CHECKED_ATTRIBUTES}
    attribute_sets = [row.attributes for row in upserts] + [patch.attributes for patch in patches]
    unknown = {name for values in attribute_sets for name in values.keys() - allowed}
    if unknown:
        raise ValueError(f"the store does not have the attributes {sorted(unknown)}")


def matrix(rows: Sequence[VectorRow], dimensions: int) -> NDArray[np.float32]:
    """Stack all vectors into shape (rows, dimensions); a row without a vector gets the first unit vector.

    Raises `StoreRefused` for vectors of another length, and for vectors without a cosine: NaN, infinite, all zeros.
    """
    vectors = np.zeros((len(rows), dimensions), dtype="<f4")
    for number, row in enumerate(rows):
        if row.vector is None:
            vectors[number, 0] = 1.0
        elif row.vector.shape == (dimensions,):
            vectors[number] = row.vector
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(squares) | (squares == 0)).tolist()
    if bad:
        said = f"{amount(len(bad), 'vector')} {noun(len(bad), 'is', 'are')} zero, not finite, or not of {dimensions} "
        raise StoreRefused(
            f"{said}dimensions; embed {noun(len(bad), 'this text', 'these texts')} again.",
            ids=[rows[number].id for number in bad],
        )
    return vectors


def attributes(row: VectorRow) -> dict[str, Value]:
    """Return every attribute of the schema in its order, strings truncated; None if the row has no value."""
    values: dict[str, Value] = {name: storable(row.attributes.get(name)) for name in STRING_ATTRIBUTES}
    values |= {"level": row.attributes.get("level"), "embedded": row.vector is not None}
    return values | {"generation": row.generation}


def column(rows: Sequence[VectorRow], name: str) -> list[Value]:
    """Return a string attribute of all rows, truncated; None where a row has no value."""
    return [storable(row.attributes.get(name)) for row in rows]


def storable(value: Value) -> Value:
    """Cut `value` if it is a string."""
    return cut_filterable(value) if isinstance(value, str) else value


def can_match(leg: Leg, *, has_keywords: bool) -> bool:
    """Return whether the leg can match anything: it has words, and every filter has values.

    Raises `StoreRefused` for a keyword leg if there is no keyword index.
    """
    if leg.vector is None and not has_keywords:
        raise StoreRefused("This store has no keyword index; set KEYWORD_INDEX=store and index the folder again.")
    return (
        leg.limit > 0
        and (leg.vector is not None or bool(words(leg)))
        and all(condition.values for condition in leg.conditions)
    )


def clean(text: str) -> str:
    """Replace lone surrogates, which no store can encode; they come from users' JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def words(leg: Leg) -> str:
    """Return the leg's keywords in the form of its field, at most `MAX_KEYWORD_BYTES`."""
    return _words(leg.keywords or "", leg.field, leg.languages, phrase=leg.phrase)


@lru_cache(1024)  # called again when the leg is sent, and by legs that differ only in their filters
def _words(keywords: str, field: Field, languages: frozenset[str], *, phrase: bool) -> str:
    if phrase:
        return " ".join(phrase_tokens(keywords)[1])
    asked = " ".join(query_tokens(keywords, field, languages))
    return asked.encode()[:MAX_KEYWORD_BYTES].decode(errors="ignore")


def ranked(ids: Sequence[str], values: Sequence[float], *, descending: bool, limit: int) -> Ranked:
    """Turn ids and their values into an answer: the best `limit` values first, ties ordered by id."""
    if descending:
        best = sorted(zip([-value for value in values], ids, strict=True))[:limit]
        return Ranked([id_ for _, id_ in best], [-value for value, _ in best])
    best = sorted(zip(values, ids, strict=True))[:limit]
    return Ranked([id_ for _, id_ in best], [value for value, _ in best])
