"""One namespace of the fake Turbopuffer: writes and queries on values. It refuses whatever the service refuses.

Where the documentation is silent, it takes the stricter reading.
"""

from __future__ import annotations

import base64
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import compress, islice
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from worker.tokens.normal_forms import normalized

Json = dict[str, Any]

MAX_VALUE, MAX_FILTERABLE = 8 << 20, 4096
MAX_ID, MAX_NAME, MAX_ATTRIBUTES, MAX_DIMENSIONS = 64, 128, 1024, 10_752
MAX_LIMIT, MAX_QUERIES, MAX_TEXT_QUERY = 10_000, 16, 8192
SCALARS: dict[str, type] = {"string": str, "int": int, "uint": int, "float": float, "bool": bool, "uuid": str}
TYPE = re.compile(r"(\[\])?(string|int|uint|float|uuid|datetime|bool)|\[(\d+)\]f(32|16)")
WRITE_KEYS = {"upsert_rows", "upsert_columns", "patch_rows", "patch_columns", "deletes"}
WRITE_OPTIONS = {"distance_metric", "schema", "create_namespace", "disable_backpressure"}
WRITE_OPTIONS |= {"upsert_condition", "patch_condition"}
QUERY_KEYS = {"rank_by", "limit", "top_k", "filters", "include_attributes", "consistency", "vector_encoding"}
ATTRIBUTE_OPTIONS = {"type", "filterable", "full_text_search", "ann"}
TEXT_OPTIONS = {"tokenizer", "language", "case_sensitive", "stemming", "remove_stopwords", "ascii_folding"}
TEXT_OPTIONS |= {"max_token_length", "k1", "b"}
# Tokens that arrive as such are stored unchanged.
TOKEN_OPTIONS = {"tokenizer", "max_token_length", "k1", "b"}


class Refused(Exception):
    """A request that gets an error as answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class Document:
    """One stored row: its attributes without nulls, its unit vector, and the terms of its full-text attributes."""

    values: Json
    vector: NDArray[np.float64] | None
    terms: dict[str, Counter[str]] = field(default_factory=dict)


@dataclass(slots=True)
class Postings:
    """The rows that hold each term of a full-text attribute, with its count, and the number of terms of each row."""

    rows: dict[str, dict[Any, int]] = field(default_factory=dict)
    lengths: dict[Any, int] = field(default_factory=dict)


@dataclass(slots=True)
class Namespace:
    """A schema and its rows. `schema["id"]` is the id type; `dimensions` is 0 if there are no vectors.

    `vectors` and `postings` are made by the first query after a write.
    """

    schema: dict[str, Json] = field(default_factory=dict)
    dimensions: int = 0
    metric: str | None = None
    rows: dict[Any, Document] = field(default_factory=dict)
    vectors: tuple[list[Any], NDArray[np.float64]] | None = None
    postings: dict[str, Postings] = field(default_factory=dict)


def require(holds: object, message: str, status: int = 400) -> None:
    if not holds:
        raise Refused(status, message)


# ---- writing


def write(space: Namespace, body: Json) -> Json:
    unknown = body.keys() - WRITE_KEYS - WRITE_OPTIONS
    require(not unknown, f"the fake does not know {sorted(unknown)}")
    schema = {name: dict(kind) for name, kind in space.schema.items()}
    changed = Namespace(schema, space.dimensions, space.metric, space.rows)
    declare(changed, body.get("schema") or {})
    upserts, patches = listed(body, "upsert"), listed(body, "patch")
    infer_id(changed, [row.get("id") for row in upserts])
    metric = body.get("distance_metric", changed.metric)
    require(changed.metric in {None, metric}, "distance_metric differs from the namespace's")
    changed.metric = metric
    ids = [identity(changed, row.get("id")) for row in [*upserts, *patches]]
    gone = [identity(changed, id_) for id_ in body.get("deletes") or []]
    require(len({*ids, *gone}) == len(ids) + len(gone), "💔 duplicate document IDs, nothing was written")
    documents = [document(changed, row) for row in upserts]
    require(all("vector" not in row for row in patches), "vectors cannot be patched")
    merges = [values(changed, row) for row in patches]
    upserted = [meets(changed, body.get("upsert_condition"), id_, row) for id_, row in zip(ids, upserts, strict=False)]
    rest = zip(ids[len(upserts) :], patches, strict=True)
    patched = [id_ in space.rows and meets(changed, body.get("patch_condition"), id_, row) for id_, row in rest]
    space.schema, space.dimensions, space.metric = changed.schema, changed.dimensions, changed.metric
    space.vectors, space.postings = None, {}
    space.rows.update(compress(zip(ids, documents, strict=False), upserted))
    for id_, new in compress(zip(ids[len(upserts) :], merges, strict=True), patched):
        merge(space, id_, new)
    deleted = [space.rows.pop(id_, None) is not None for id_ in gone]
    counts = {"rows_upserted": sum(upserted), "rows_patched": sum(patched), "rows_deleted": sum(deleted)}
    answer = {"status": "OK", "message": "", "rows_affected": sum(counts.values()), **counts}
    return answer | {"billing": {"billable_logical_bytes_written": 0}, "performance": {"server_total_ms": 1}}


def listed(body: Json, kind: str) -> list[Json]:
    rows, columns = body.get(f"{kind}_rows") or [], body.get(f"{kind}_columns") or {}
    require(isinstance(rows, list) and isinstance(columns, dict), "Failed to deserialize the JSON body", 422)
    require(len({len(column) for column in columns.values()}) <= 1, "columns differ in length")
    return rows + [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]


def declare(space: Namespace, schema: dict[str, Any]) -> None:
    for name, short in schema.items():
        config = {"type": short} if isinstance(short, str) else dict(short)
        require("type" in config, f"schema of {name}: missing field `type`", 422)
        require(not config.keys() - ATTRIBUTE_OPTIONS, f"schema of {name}: unknown option")
        match = TYPE.fullmatch(config["type"])
        require(match, f"schema of {name}: unknown type {config['type']}")
        old = space.schema.get(name)
        require(old is None or old["type"] == config["type"], f"type of {name} cannot change")
        if match and match[3]:
            declare_vector(space, name, config, int(match[3]))
        else:
            add_attribute(space, name, config)


def declare_vector(space: Namespace, name: str, config: Json, dimensions: int) -> None:
    require(name == "vector" and config.get("ann"), "a vector needs `ann`; the fake has only `vector`")
    require(1 <= dimensions <= MAX_DIMENSIONS, "too many dimensions")
    require(not space.rows or space.dimensions, "vector columns are fixed at creation")
    space.dimensions = dimensions
    space.schema[name] = config


def add_attribute(space: Namespace, name: str, config: Json) -> None:
    """Add or change an attribute. Full-text attributes are not filterable unless the schema says so."""
    require(len(name.encode()) <= MAX_NAME and not name.startswith("$"), f"invalid attribute name {name!r}")
    text = config.get("full_text_search")
    kind = "[]string" if is_tokenized(config) else "string"
    require(not text or config["type"] == kind, f"{name}: full_text_search needs a {kind}")
    options = TOKEN_OPTIONS if is_tokenized(config) else TEXT_OPTIONS
    require(not isinstance(text, dict) or not text.keys() - options, f"{name}: unknown full-text option")
    space.schema[name] = {"filterable": not text, "full_text_search": False} | config
    require(len(space.schema) <= MAX_ATTRIBUTES, "too many attributes")


def infer_id(space: Namespace, ids: list[Any]) -> None:
    if ids and "id" not in space.schema:
        space.schema["id"] = {"type": "uint" if isinstance(ids[0], int) else "string", "filterable": True}


def identity(space: Namespace, id_: object) -> Any:
    kind = space.schema["id"]["type"] if "id" in space.schema else "string"
    if kind == "uint":
        require(isinstance(id_, int) and not isinstance(id_, bool) and id_ >= 0, f"namespace ID type is uint: {id_!r}")
        return id_
    require(isinstance(id_, str), f"namespace ID type is {kind}, but you sent {id_!r}")
    require(len(str(id_).encode()) <= MAX_ID, "document ID is longer than 64 bytes")
    try:
        return str(UUID(str(id_))) if kind == "uuid" else id_
    except ValueError:
        raise Refused(400, f"namespace ID type is uuid, but you sent {id_!r}") from None


def document(space: Namespace, row: Json) -> Document:
    found = values(space, {name: value for name, value in row.items() if name != "vector"})
    raw = row.get("vector")
    if raw is None:
        require(not space.dimensions, "every document must have the vector")
        return indexed(space, Document(found, None))
    require(space.metric, "distance_metric is required with vectors")
    vector = decoded(raw)
    space.dimensions = space.dimensions or len(vector)
    return indexed(space, Document(found, unit(space, vector)))


def decoded(raw: object) -> NDArray[np.float64]:
    if isinstance(raw, str):
        return np.frombuffer(base64.b64decode(raw, validate=True), dtype="<f4").astype(np.float64)
    numbers = isinstance(raw, list) and all(isinstance(n, (int, float)) for n in raw)
    require(numbers, "a vector is a list of numbers or base64", 422)
    return np.array(raw, dtype=np.float64)


def unit(space: Namespace, vector: NDArray[np.float64]) -> NDArray[np.float64]:
    require(len(vector) == space.dimensions, f"vector has {len(vector)} dimensions, expected {space.dimensions}")
    norm = float(np.linalg.norm(vector))
    require(math.isfinite(norm) and norm > 0, "vector is not finite, or zero under cosine_distance")
    return vector / norm


def values(space: Namespace, row: Json) -> Json:
    found = {name: value for name, value in row.items() if name != "id"}
    for name, value in found.items():
        if name not in space.schema and value is not None:
            add_attribute(space, name, {"type": inferred(value)})
        require(value is None or fits(space.schema[name]["type"], value), f"type mismatch in attribute {name!r}")
        check_size(space.schema.get(name, {}), name, value)
    return found


def inferred(value: object) -> str:
    one = value[0] if isinstance(value, list) and value else value
    kind = {bool: "bool", int: "int", str: "string"}.get(type(one))
    require(kind, "the type of this attribute must be declared")
    return f"[]{kind}" if isinstance(value, list) else str(kind)


def fits(kind: str, value: object) -> bool:
    if kind.startswith("[]"):
        return isinstance(value, list) and all(fits(kind[2:], one) for one in value)
    wanted = SCALARS.get(kind, str)
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def check_size(config: Json, name: str, value: object) -> None:
    for one in value if isinstance(value, list) else [value]:
        size = len(one.encode()) if isinstance(one, str) else 8
        require(size <= MAX_VALUE, f"attribute {name!r} is larger than 8 MiB")
        require(
            size <= MAX_FILTERABLE or not config.get("filterable"), f"filterable {name!r} is larger than 4096 bytes"
        )


def indexed(space: Namespace, row: Document) -> Document:
    row.values = {name: value for name, value in row.values.items() if value is not None}
    texts = {name: value for name, value in row.values.items() if space.schema[name].get("full_text_search")}
    row.terms = {name: Counter(terms(space.schema[name], value)) for name, value in texts.items()}
    return row


def merge(space: Namespace, id_: Any, new: Json) -> None:
    old = space.rows[id_]
    space.rows[id_] = indexed(space, Document(old.values | new, old.vector))


def meets(space: Namespace, condition: Any, id_: Any, new: Json) -> bool:
    """Whether the stored row, if any, meets a write's condition, which may refer to values of the new row."""
    holds = predicate(space, resolved(condition, new))
    return id_ not in space.rows or holds(id_, space.rows[id_])


def resolved(node: Any, new: Json) -> Any:
    """A condition with each `{"$ref_new": attribute}` replaced by the new row's value."""
    if isinstance(node, dict):
        require(node.keys() == {"$ref_new"}, "only `$ref_new` may stand in a condition", 422)
        return new.get(node["$ref_new"])
    return [resolved(part, new) for part in node] if isinstance(node, list) else node


# ---- reading


def queries(space: Namespace, body: Json) -> Json:
    if "queries" not in body:
        return query(space, body)
    require(not body.keys() - {"queries", "consistency", "vector_encoding"}, "the fake does not know this option")
    require(1 <= len(body["queries"]) <= MAX_QUERIES, "between 1 and 16 queries are allowed")
    answers = [query(space, one) for one in body["queries"]]
    return {"results": answers, "billing": answers[0]["billing"], "performance": answers[0]["performance"]}


def query(space: Namespace, body: Json) -> Json:
    unknown = body.keys() - QUERY_KEYS
    require(not unknown, f"the fake does not know {sorted(unknown)}")
    require(isinstance(body.get("rank_by"), list), "missing field `rank_by`", 422)
    limit = body.get("limit", body.get("top_k"))
    total = limit.get("total") if isinstance(limit, dict) else limit
    require(type(total) is int and 1 <= total <= MAX_LIMIT, "limit must be between 1 and 10000")
    holds = predicate(space, body.get("filters"))
    wanted = body.get("include_attributes") or []
    encoding = body.get("vector_encoding", "float")
    require(encoding in {"float", "base64"}, "unknown vector_encoding", 422)
    ranked = ((id_, dist) for id_, dist in ranking(space, body) if holds(id_, space.rows[id_]))
    found = list(islice(ranked, total))
    return {"rows": [{"id": id_, **dist, **chosen(space.rows[id_], wanted, encoding)} for id_, dist in found]} | {
        "billing": {"billable_logical_bytes_queried": 0, "billable_logical_bytes_returned": 0},
        "performance": {"approx_namespace_size": len(space.rows), "server_total_ms": 1, "query_execution_ms": 1},
    }


def chosen(row: Document, wanted: bool | list[str], encoding: str) -> Json:
    def asked(name: str) -> bool:
        return wanted is True or name in (wanted or [])

    found = {name: value for name, value in row.values.items() if asked(name)}
    if row.vector is not None and asked("vector"):
        raw = row.vector.astype("<f4")
        found["vector"] = base64.b64encode(raw.tobytes()).decode() if encoding == "base64" else raw.tolist()
    return found


def ranking(space: Namespace, body: Json) -> Iterator[tuple[Any, Json]]:
    """All rows that have a rank, the best first. A generator, so that filters see no more rows than are needed.

    Equal rows come as they were written: the service promises no order of theirs.
    """
    name, how, *rest = body["rank_by"]
    if how in {"asc", "desc"}:
        require(name in space.schema and space.schema[name].get("filterable", True), f"cannot order by {name!r}")
        keys = {id_: id_ if name == "id" else row.values[name] for id_, row in space.rows.items()}
        return ((id_, {}) for id_ in sorted(keys, key=keys.__getitem__, reverse=how == "desc"))
    if how == "BM25":
        return by_text(space, name, rest[0])
    require(how == "ANN" and name == "vector" and space.dimensions, f"cannot rank by {name!r} {how!r}")
    return by_vector(space, unit(space, decoded(rest[0])))


def by_vector(space: Namespace, target: NDArray[np.float64]) -> Iterator[tuple[Any, Json]]:
    if space.vectors is None:
        rows = {id_: row.vector for id_, row in space.rows.items() if row.vector is not None}
        space.vectors = list(rows), np.array([*rows.values()]).reshape(len(rows), space.dimensions)
    ids, vectors = space.vectors
    # not `@`, which may sum the products of equal rows in different orders
    distances = 1.0 - (vectors * target).sum(axis=1)
    return ((ids[at], {"$dist": float(distances[at])}) for at in np.argsort(distances, kind="stable").tolist())


def by_text(space: Namespace, name: str, text: Any) -> Iterator[tuple[Any, Json]]:
    """BM25 with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza 2009). Rows that score 0 are left out."""
    config = space.schema.get(name, {})
    require(config.get("full_text_search"), f"attribute {name!r} has no full-text index")
    kind = "[]string" if is_tokenized(config) else "string"
    require(fits(kind, text) and len("".join(text).encode()) <= MAX_TEXT_QUERY, "invalid full-text query")
    if name not in space.postings:
        space.postings[name] = posted(space, name)
    postings = space.postings[name]
    number = len(postings.lengths)
    mean = sum(postings.lengths.values()) / max(number, 1)
    scores: dict[Any, float] = {}
    for term in sorted(set(terms(config, text))):
        holding = postings.rows.get(term, {})
        weight = math.log(1 + (number - len(holding) + 0.5) / (len(holding) + 0.5))
        for id_, count in holding.items():
            length = 1.2 * (1 - 0.75 + 0.75 * postings.lengths[id_] / mean)
            scores[id_] = scores.get(id_, 0.0) + weight * count * 2.2 / (count + length)
    return ((id_, {"$dist": score}) for id_, score in sorted(scores.items(), key=lambda item: -item[1]))


def posted(space: Namespace, name: str) -> Postings:
    found = Postings()
    for id_, row in space.rows.items():
        if name in row.terms:
            found.lengths[id_] = row.terms[name].total()
            for term, count in row.terms[name].items():
                found.rows.setdefault(term, {})[id_] = count
    return found


def is_tokenized(config: Json) -> bool:
    text = config.get("full_text_search")
    return isinstance(text, dict) and text.get("tokenizer") == "pre_tokenized_array"


def terms(config: Json, given: Any) -> list[str]:
    """An attribute's words, or the tokens that were given."""
    if not is_tokenized(config):
        return words(given)
    longest = config["full_text_search"].get("max_token_length", 39)
    return [token for token in given if len(token.encode()) <= longest]


def words(text: str) -> list[str]:
    """Split into words: lower case, without accents, without English endings."""
    plain = "".join(c for c in normalized("NFKD", text.lower()) if not unicodedata.combining(c))
    return [stem(word) for word in re.findall(r"\w+", plain) if len(word.encode()) <= 39]


def stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            root = word.removesuffix(ending)
            return root[:-1] if ending in {"ing", "ed"} and root[-1] == root[-2] else root
    return word


Predicate = Callable[[Any, Document], bool]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "Eq": lambda have, want: have == want,
    "Glob": lambda have, want: have is not None and fnmatchcase(have, want),
    "In": lambda have, want: have in want,
    # As documented, these two are true for missing values.
    "Lt": lambda have, want: have is None or have < want,
    "Lte": lambda have, want: have is None or have <= want,
    "Gt": lambda have, want: have is not None and have > want,
    "Gte": lambda have, want: have is not None and have >= want,
}


def predicate(space: Namespace, node: Any) -> Predicate:
    """Compile a filter. Refuses unknown and unfilterable attributes, and values of other types."""
    if node is None:
        return lambda _id, _row: True
    require(isinstance(node, list) and len(node) >= 2, "filter must be an array", 422)
    if node[0] in {"And", "Or"}:
        children = [predicate(space, child) for child in node[1]]
        join: Callable[[Iterable[object]], bool] = all if node[0] == "And" else any
        return lambda id_, row: join(child(id_, row) for child in children)
    name, how, want = node
    config = space.schema.get(name)
    require(config is not None, f"filter error: attribute {name!r} not found")
    if how == "ContainsAllTokens":
        require(config and config.get("full_text_search") and fits("[]string", want), "invalid filter of tokens")
        return lambda _id, row: set(want) <= row.terms.get(name, {}).keys()
    require(config and config.get("filterable", True), f"attribute {name!r} isn't filterable; is BM25 enabled?")
    require(how in COMPARE or how == "ContainsAny", f"the fake does not know the filter {how}")
    # Only globs that mean the same in Python.
    require(
        how != "Glob" or re.fullmatch(r"[*.+\w-]+", str(want), re.ASCII), f"the fake does not know the glob {want!r}"
    )
    kind = config["type"] if config else ""
    if how == "ContainsAny":
        require(kind.startswith("[]") and fits(kind, want), f"ContainsAny expects an array, but got {want!r}")
        return lambda _id, row: not set(want).isdisjoint(row.values.get(name) or ())
    wants = want if how == "In" else [want]
    require(isinstance(wants, list), f"{how} expects an array")
    typed = all(fits(kind, one) or (one is None and how == "Eq") for one in wants)
    require(typed, f"filter error in key `{name}`: type mismatch, {how} expects {kind}, but got {want!r}")
    return lambda id_, row: COMPARE[how](id_ if name == "id" else row.values.get(name), want)
