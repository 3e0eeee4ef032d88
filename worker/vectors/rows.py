"""What every store does with rows and legs before they take its own form: checks, cuts, and the order of answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from schemas.errors import StoreRefused
from worker.tokens.keywords import asked_words
from worker.vectors import STRING_ATTRIBUTES, Found, Leg, Patch, Row, Value, cut

#: UTF-8 bytes of a full-text query, alike in all stores: Turbopuffer's documented 8,192 in its smallest reading, as it
#: has no unit.
MAX_KEYWORD_BYTES = 8_192


def check(upserts: Sequence[Row], patches: Sequence[Patch], deletes: Sequence[UUID]) -> None:
    """Hold callers to the seam: no id twice in one call, no attribute that the schema lacks. Raises ValueError."""
    ids = [row.id for row in upserts] + [patch.id for patch in patches] + list(deletes)
    if len(set(ids)) < len(ids):
        raise ValueError("an id stands twice in one write")
    known = {*STRING_ATTRIBUTES, "level", "embedded"}
    named = [row.attributes for row in upserts] + [patch.attributes for patch in patches]
    unknown = {name for values in named for name in values.keys() - known}
    if unknown:
        raise ValueError(f"the store has no attributes {sorted(unknown)}")


def matrix(rows: Sequence[Row], dimensions: int) -> NDArray[np.float32]:
    """Stack all vectors, shape (rows, dimensions); a row without one gets the first unit vector.

    Raises StoreRefused for vectors of another length and those that cosine cannot compare: NaN, infinite, all zeros.
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
        raise StoreRefused(
            f"{len(bad)} vectors are zero, not finite, or not of {dimensions} numbers; embed these texts again.",
            ids=[rows[number].id for number in bad],
        )
    return vectors


def attributes(row: Row) -> dict[str, Value]:
    """Return every attribute of the schema, in its order, strings cut; None where the row has none."""
    values: dict[str, Value] = {name: storable(row.attributes.get(name)) for name in STRING_ATTRIBUTES}
    values |= {"level": row.attributes.get("level"), "embedded": row.vector is not None}
    return values | {"generation": row.generation}


def storable(value: Value) -> Value:
    """Cut `value` if it is a string."""
    return cut(value) if isinstance(value, str) else value


def can_match(leg: Leg, *, has_keywords: bool) -> bool:
    """Tell whether the leg can find anything at all: it has words, and every filter has values.

    Raises StoreRefused for a keyword leg where there is no keyword index.
    """
    if leg.vector is None and not has_keywords:
        raise StoreRefused("This store keeps no keywords; set KEYWORD_INDEX=store and index the folder again.")
    has_words = any(character.isalnum() for character in words(leg))
    return (
        leg.limit > 0
        and (leg.vector is not None or has_words)
        and all(condition.values for condition in leg.conditions)
    )


def clean(text: str) -> str:
    """Replace lone surrogates, which no store can encode; they come from users' JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def words(leg: Leg) -> str:
    """Return the leg's keywords as the store's field takes them, at most `MAX_KEYWORD_BYTES`."""
    return _words(leg.keywords or "", leg.field)


@lru_cache(64)  # asked for again where the leg is sent, and by legs that differ in their filters only
def _words(keywords: str, field: str) -> str:
    asked = clean(keywords) if field == "text" else " ".join(asked_words(keywords))
    return asked.encode()[:MAX_KEYWORD_BYTES].decode(errors="ignore")


def ranked(ids: Sequence[str], values: Sequence[float], *, descending: bool, limit: int) -> list[Found]:
    """Turn ids and their values into an answer: the `limit` best values first, equal ones by id."""
    if descending:
        first = sorted(zip([-value for value in values], ids, strict=True))[:limit]
        return [Found(id_, -value) for value, id_ in first]
    return [Found(id_, value) for value, id_ in sorted(zip(values, ids, strict=True))[:limit]]
