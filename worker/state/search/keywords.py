"""Keywords in Postgres: how they are written, and their search by BM25.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with two bounds: common lexemes
are counted in a sample, and only chunks that hold a rare one of the query are scored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Any, Literal
from uuid import UUID

from cachetools import TTLCache
from psycopg import Connection
from psycopg.errors import QueryCanceled
from psycopg.sql import Identifier

from schemas.errors import StoreUnavailable
from worker.state.postgres import Pool, load
from worker.tokens.keywords import asked_words, code_words

Field = Literal["text", "code"]

#: How soon more of the same word counts less, and how much long chunks count less, as in the stores.
K1, B = 1.2, 0.75
#: Lexemes of a query that are looked up, the longest, and of those that are scored, the rarest.
MAX_LEXEMES, MAX_TERMS = 64, 32
#: Chunks that are scored, of all that hold a word of the query.
MAX_CANDIDATES = 3_000
#: A lexeme is counted so far; the share of those in more chunks is taken from so many.
MAX_COUNT, SAMPLE = 2_000, 1_000
#: Seconds for which a process remembers which share of an index' chunks hold a lexeme, if so many do; of an index with
#: fewer chunks than the sample nothing is remembered, as it may be one that is only beginning to fill.
REMEMBERED_S, MIN_REMEMBERED = 600, 50
#: Seconds a statement may take: less than a caller's connection waits for an answer.
TIMEOUT_S = 3

_SQL, _FILTERS = load("search/keywords"), load("index/filters")
_COLUMNS = {"text": Identifier("keywords"), "code": Identifier("code")}

_lock = Lock()
_sizes: TTLCache[UUID, tuple[float, float]] = TTLCache(10_000, 60)
_shares: TTLCache[tuple[UUID, Field, str], float] = TTLCache(200_000, REMEMBERED_S)


def vector(path: str, context: str, text: str) -> str:
    """The field "code" of a chunk as Postgres reads a tsvector; label A marks what comes from the path."""
    numbers = count(1)
    of_path = [f"{token}:{next(numbers)}A" for token in code_words(path).split()]
    of_text = [f"{token}:{next(numbers)}" for token in code_words(f"{context}\n{text}").split()]
    return " ".join(of_path + of_text)


def path_vector(path: str) -> str:
    """The part of `vector` that a move changes."""
    return " ".join(f"{token}:{number}A" for number, token in enumerate(code_words(path).split(), 1))


def search(pool: Pool, values: Mapping[str, Any], field: Field) -> list[tuple[str, float]]:
    """Chunks that hold any word of the query, with their BM25, best first, equal ones by id.

    `values` are the filters, `query`, `index_id` and `limit`. A query of nothing but stop words, which "text" leaves
    out, is searched in "code". Raises StoreUnavailable where Postgres takes too long.
    """
    with pool.connection() as connection:
        lexemes = _lexemes(connection, values["query"], field)
        if not lexemes and field == "text":
            field, lexemes = "code", _lexemes(connection, values["query"], "code")
        connection.execute(_SQL["bounds"], {"milliseconds": str(TIMEOUT_S * 1000)})
        try:
            return _ranked(connection, values, field, lexemes)
        except QueryCanceled as error:
            raise StoreUnavailable(
                "Postgres takes too long for these keywords; ask for fewer or rarer ones."
            ) from error


def _lexemes(connection: Connection[Any], query: str, field: Field) -> list[str]:
    if field == "code":
        return sorted(asked_words(query), key=lambda token: (-len(token), token))[:MAX_LEXEMES]
    # Postgres' text takes neither
    words = query.replace("\0", " ").encode(errors="replace").decode()
    return [lexeme for (lexeme,) in connection.execute(_SQL["lexemes"], {"query": words, "limit": MAX_LEXEMES})]


def _ranked(
    connection: Connection[Any], values: Mapping[str, Any], field: Field, lexemes: Sequence[str]
) -> list[tuple[str, float]]:
    index_id: UUID = values["index_id"]
    total, mean = _size(connection, index_id)
    found = _counted(connection, index_id, field, lexemes, total)
    terms = sorted((number, lexeme) for lexeme, number in found.items() if number)[:MAX_TERMS]
    if not terms:
        return []
    # never prepared: a plan for any lexemes and filters takes ten times as long as one for these
    statement = _SQL["search"].format(field=_COLUMNS[field], **_FILTERS)
    asked = {
        "queries": [quoted(lexeme) for _, lexeme in terms],
        "weights": [math.log(1 + (max(total, number) - number + 0.5) / (number + 0.5)) for number, _ in terms],
        **_choice(terms),
        "anywhere": all(values[name] is None for name in ("file_node_ids", "id_paths", "folders", "endings")),
        "candidates": MAX_CANDIDATES,
        "k1": K1,
        "b": B,
        "mean": mean,
    }
    return connection.execute(statement, {**values, **asked}, prepare=False).fetchall()


def _choice(terms: Sequence[tuple[float, str]]) -> dict[str, str | None]:
    """Which chunks are scored: those with one of the rarest lexemes, and if even that are too many, first with all.

    Of more than `MAX_CANDIDATES` the first by id, which are always the same.
    """
    held = 0.0
    rare: list[str] = []
    for number, lexeme in terms:
        held += number
        if rare and held > MAX_CANDIDATES:
            break
        rare.append(quoted(lexeme))
    common = terms[0][0] > MAX_CANDIDATES
    return {"rare": " | ".join(rare), "together": " & ".join(quoted(lexeme) for _, lexeme in terms) if common else None}


def _size(connection: Connection[Any], index_id: UUID) -> tuple[float, float]:
    """An index's live chunks, and their mean length in tokens."""
    with _lock:
        known = _sizes.get(index_id)
    if known is None:
        row = connection.execute(_SQL["size"], {"index_id": index_id, "sample": SAMPLE}).fetchone()
        known = (row[0] or 0.0, row[1] or 1.0) if row else (0.0, 1.0)
        if known[0] >= SAMPLE:
            with _lock:
                _sizes[index_id] = known
    return known


def _counted(
    connection: Connection[Any], index_id: UUID, field: Field, lexemes: Sequence[str], total: float
) -> dict[str, float]:
    """How many chunks of an index hold each lexeme; rare ones are always counted, as a new one may be the first."""
    with _lock:
        known = {lexeme: _shares.get((index_id, field, lexeme)) for lexeme in lexemes}
    missing = [lexeme for lexeme, share in known.items() if share is None]
    found = _frequencies_of(connection, index_id, field, missing, total) if missing else {}
    if total >= SAMPLE:
        # more chunks than the remembered total have come since
        common = {lexeme: number / total for lexeme, number in found.items() if MIN_REMEMBERED <= number <= total}
        with _lock:
            _shares.update({(index_id, field, lexeme): share for lexeme, share in common.items()})
    return {lexeme: share * total for lexeme, share in known.items() if share is not None} | found


def _frequencies_of(
    connection: Connection[Any], index_id: UUID, field: Field, lexemes: Sequence[str], total: float
) -> dict[str, float]:
    def asked(name: str, some: Sequence[str]) -> dict[str, float]:
        statement = _SQL[name].format(field=_COLUMNS[field])
        values = {"lexemes": list(some), "queries": list(map(quoted, some)), "limit": MAX_COUNT, "sample": SAMPLE}
        return dict(connection.execute(statement, {**values, "index_id": index_id}, prepare=False).fetchall())

    counted = asked("frequencies", lexemes)
    common = [lexeme for lexeme, number in counted.items() if number >= MAX_COUNT]
    shares = asked("shares", common) if common else {}
    return counted | {lexeme: max(MAX_COUNT, share * total) for lexeme, share in shares.items()}


def quoted(lexeme: str) -> str:
    """A lexeme as Postgres reads a tsquery."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
