"""Converts rows, patches, queries and filters to Turbopuffer's format, readable or as keyed hashes."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from worker.tokens.keywords import BM25_B, BM25_K1, Keywords
from worker.vectors import (
    CHECKED_ATTRIBUTES,
    FILTERED,
    STRING_ATTRIBUTES,
    Condition,
    Field,
    Leg,
    Patch,
    StoredAttributes,
    Value,
    VectorRow,
)
from worker.vectors.blind import GROUPS, SPACED_HASH, Blind
from worker.vectors.rows import MAX_KEYWORD_BYTES, attributes, clean, matrix, storable, words

#: A JSON request. The client types each of its parts, but composed values do not have these types.
Body = dict[str, Any]

#: The store's limit of rows in one answer.
MAX_LIMIT = 10_000
#: Bytes of JSON around a row's values: quotes, commas, id and small values. Column names are sent once per request.
ROW_OVERHEAD_BYTES = 200

#: The text is tokenized here, so that tokens are the same in every store.
TOKENS = {"tokenizer": "pre_tokenized_array", "max_token_length": 254, "k1": BM25_K1, "b": BM25_B}
KEYWORDS_SCHEMA: dict[str, object] = {
    name: {"type": "[]string", "filterable": False, "full_text_search": TOKENS}
    for name in ("chunk_words", "chunk_code")
}
#: The attributes that keyword legs search, by their field.
ATTRIBUTES: Mapping[Field, str] = {"text": "chunk_words", "code": "chunk_code"}

#: The condition under which a write replaces a row.
OLDER = ("generation", "Lte", {"$ref_new": "generation"})

#: Maximum hashes of one full-text query.
_MAX_HASHES = MAX_KEYWORD_BYTES // SPACED_HASH


class RowForm(Protocol):
    """The representation of a namespace's strings and words in the store."""

    @property
    def checked(self) -> Sequence[str]:
        """Attributes that describe a row's file and chunk."""
        ...

    def schema(self) -> Mapping[str, object]:
        """Return the types of the string attributes, or of the hashes that replace them."""
        ...

    def row(self, row: VectorRow) -> StoredAttributes:
        """Return all attributes of a row except its words."""
        ...

    def changed(self, values: Mapping[str, Value]) -> StoredAttributes:
        """Return the new values of some attributes."""
        ...

    def words(self, keywords: Keywords) -> tuple[list[str], list[str]]:
        """Return the two keyword fields of a row."""
        ...

    def tokens(self, leg: Leg) -> list[str]:
        """Return the tokens that a leg searches."""
        ...

    def filter(self, condition: Condition) -> list[tuple[Any, ...]]:
        """Return filters, at least one of which a row must match."""
        ...

    def readable(self, message: str, legs: Sequence[Leg], /) -> str:
        """Return a message of the store about these legs, with words in place of their hashes."""
        ...


class ReadableRows:
    """Stores strings and words unchanged."""

    checked = CHECKED_ATTRIBUTES

    def schema(self) -> Mapping[str, object]:
        """Return the types, as `RowForm` says. Attributes that are not filterable cost half as much to store."""
        return {name: {"type": "string", "filterable": name in FILTERED} for name in STRING_ATTRIBUTES}

    def row(self, row: VectorRow) -> StoredAttributes:
        """See `RowForm`."""
        return attributes(row)

    def changed(self, values: Mapping[str, Value]) -> StoredAttributes:
        """See `RowForm`."""
        return {name: storable(value) for name, value in values.items()}

    def words(self, keywords: Keywords) -> tuple[list[str], list[str]]:
        """See `RowForm`."""
        return keywords.text.split(), keywords.code.split()

    def tokens(self, leg: Leg) -> list[str]:
        """See `RowForm`."""
        return words(leg).split()

    def filter(self, condition: Condition) -> list[tuple[Any, ...]]:
        """See `RowForm`."""
        name = condition.attribute
        values = [storable(clean(value)) if isinstance(value, str) else value for value in condition.values]
        if condition.op == "in":
            return [(name, "In", values)]
        if condition.op == "prefix":
            return [part for value in values for part in _below(name, value)]
        # Suffixes hold no glob characters.
        return [(name, "Glob", f"*{value}") for value in values]

    def readable(self, message: str, _legs: Sequence[Leg], /) -> str:
        """See `RowForm`."""
        return message


class BlindRows:
    """Stores keyed hashes of strings and words."""

    checked = (*GROUPS, "content_hash", "chunk_id", "level")

    def __init__(self, blind: Blind) -> None:
        self._blind = blind

    def schema(self) -> Mapping[str, object]:
        """See `RowForm`."""
        unfiltered = {name: {"type": "string", "filterable": False} for name in ("content_hash", "chunk_id")}
        return {name: {"type": "[]string", "filterable": True} for name in GROUPS} | unfiltered

    def row(self, row: VectorRow) -> StoredAttributes:
        """See `RowForm`."""
        return self._blind.row(row)

    def changed(self, values: Mapping[str, Value]) -> StoredAttributes:
        """See `RowForm`."""
        return self._blind.attributes(values)

    def words(self, keywords: Keywords) -> tuple[list[str], list[str]]:
        """See `RowForm`."""
        return self._blind.keywords(keywords)

    def tokens(self, leg: Leg) -> list[str]:
        """Return the tokens, as `RowForm` says. Hashes are longer than most words, so a long query is cut earlier."""
        return self._blind.tokens(leg.field, words(leg).split()[:_MAX_HASHES])

    def filter(self, condition: Condition) -> list[tuple[Any, ...]]:
        """See `RowForm`."""
        if condition.attribute in {"level", "embedded"}:
            return [(condition.attribute, "In", list(condition.values))]
        group, hashes = self._blind.condition(condition)
        return [(group, "ContainsAny", hashes)]

    def readable(self, message: str, legs: Sequence[Leg], /) -> str:
        """See `RowForm`."""
        for leg in legs:
            for hashed, word in zip(self.tokens(leg), words(leg).split(), strict=False):
                message = message.replace(hashed, word)
            for condition in leg.conditions:
                for _, _, hashes in self.filter(condition):
                    for hashed, value in zip(hashes, condition.values, strict=True):
                        message = message.replace(str(hashed), str(value))
        return message


def row_bytes(row: VectorRow | Patch) -> int:
    """Estimate the bytes of a row without its vector."""
    strings = [value for value in row.attributes.values() if isinstance(value, str)]
    if row.keywords is not None:
        # Each token has quotes and a comma where the text has a space.
        strings += [f"{tokens}{'  ' * tokens.count(' ')}" for tokens in (row.keywords.text, row.keywords.code)]
    return ROW_OVERHEAD_BYTES + sum(len(value.encode()) for value in strings)


def upsert_body(form: RowForm, rows: Sequence[VectorRow], dimensions: int, *, has_keywords: bool) -> Body:
    """Return the body of a request that writes rows."""
    columns: dict[str, list[Any]] = {"id": [str(row.id) for row in rows]}
    # The client takes twice as long to encode lists of floats, and rejects numpy arrays.
    columns["vector"] = [base64.b64encode(vector.tobytes()).decode() for vector in matrix(rows, dimensions)]
    values = [form.row(row) for row in rows]
    columns |= {name: [row[name] for row in values] for name in values[0]}
    if has_keywords:
        fields = [_fields_of(form, row.keywords) for row in rows]
        columns |= {name: [values[name] for values in fields] for name in KEYWORDS_SCHEMA}
    return {
        "upsert_columns": columns,
        "upsert_condition": OLDER,
        "distance_metric": "cosine_distance",
        "schema": _schema(form, dimensions, has_keywords=has_keywords),
    }


def patch_body(form: RowForm, patches: Sequence[Patch], *, has_keywords: bool) -> Body:
    """Return the body of a request that changes rows."""
    rows = [_patch_row(form, patch, has_keywords=has_keywords) for patch in patches]
    return {"patch_rows": rows, "patch_condition": OLDER}


def is_old(names: Collection[str], *, has_keywords: bool) -> bool:
    """Return whether the attributes of a namespace are from before the first release."""
    return not {"generation", *(KEYWORDS_SCHEMA if has_keywords else ())} <= {*names}


def query_of(form: RowForm, leg: Leg) -> Body:
    """Return a leg as a subquery."""
    filters = [_any_of(form.filter(condition), condition) for condition in leg.conditions]
    if leg.vector is None:
        name = ATTRIBUTES[leg.field]
        query: Body = {"rank_by": (name, "BM25", form.tokens(leg))}
        if leg.phrase:
            filters.append((name, "ContainsAllTokens", form.tokens(leg)))
    else:
        query = {"rank_by": ("vector", "ANN", leg.vector.tolist())}
        filters.append(("embedded", "Eq", True))
    if filters:
        query["filters"] = ("And", filters)
    return query | {"limit": min(leg.limit, MAX_LIMIT)}


def _schema(form: RowForm, dimensions: int, *, has_keywords: bool) -> dict[str, object]:
    own = {"id": "uuid", "vector": {"type": f"[{dimensions}]f32", "ann": True}}
    own |= {"level": "int", "embedded": "bool", "generation": "int"}
    return {**form.schema(), **own, **(KEYWORDS_SCHEMA if has_keywords else {})}


def _patch_row(form: RowForm, patch: Patch, *, has_keywords: bool) -> Mapping[str, object]:
    row = {"id": str(patch.id), "generation": patch.generation, **form.changed(patch.attributes)}
    if not has_keywords or patch.keywords is None:
        return row
    return {**row, **_fields_of(form, patch.keywords)}


def _fields_of(form: RowForm, keywords: Keywords | None) -> Mapping[str, list[str] | None]:
    if keywords is None:
        return dict.fromkeys(KEYWORDS_SCHEMA)
    return dict(zip(KEYWORDS_SCHEMA, form.words(keywords), strict=True))


def _any_of(alternatives: list[tuple[Any, ...]], condition: Condition) -> tuple[Any, ...]:
    if condition.ids:
        alternatives = [*alternatives, ("id", "In", [str(id_) for id_ in condition.ids])]
    return alternatives[0] if len(alternatives) == 1 else ("Or", alternatives)


def _below(name: str, value: str | int | bool | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    # "0" is the character after "/", so the range is exactly the values below the prefix; a Glob would need escapes.
    return (name, "Eq", value), ("And", [(name, "Gte", f"{value}/"), (name, "Lt", f"{value}0")])
