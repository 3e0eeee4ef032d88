"""Keywords in Postgres: how they are written, and how BM25 searches them.

After Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with two limits: common
lexemes are counted in a sample, and only chunks with a rare lexeme of the query are scored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Literal
from uuid import UUID

from cachetools import TTLCache
from psycopg import Connection
from psycopg.errors import QueryCanceled
from psycopg.sql import Identifier

from schemas.errors import StoreUnavailable
from worker.state.pool import Pool
from worker.state.queries import load
from worker.tokens.keywords import BM25_B, BM25_K1, Keywords, code_words, phrase_tokens, query_tokens
from worker.tokens.language_words import text_words

Field = Literal["text", "code"]
FIELDS: tuple[Field, ...] = ("text", "code")

#: Maximum number of lexemes of a query that are looked up, the longest first.
MAX_LEXEMES = 64
#: Maximum number of lexemes of a query that are scored, the rarest first.
MAX_TERMS = 32
#: Maximum number of chunks that are scored, of all chunks with a word of the query.
MAX_CANDIDATES = 3_000
#: Maximum count of chunks with a lexeme; counting stops there.
MAX_COUNT = 2_000
#: Number of sampled chunks that estimate the share of a more common lexeme.
SAMPLE_CHUNKS = 1_000
#: Seconds for which a process caches the share of an index's chunks with a lexeme. Nothing is cached for an index
#: smaller than the sample, because it may be only starting to fill.
REMEMBERED_SHARE_SECONDS = 600
#: Maximum number of lexemes, over all indexes, whose shares a process caches.
MAX_REMEMBERED_SHARES = 200_000
#: Seconds for which a process caches the size of an index.
REMEMBERED_SIZE_SECONDS = 60
#: Maximum number of indexes whose sizes a process caches.
MAX_REMEMBERED_SIZES = 10_000
#: Minimum number of chunks with a lexeme for its share to be cached.
MIN_REMEMBERED = 50
#: Maximum seconds of a statement: less than a caller's connection waits for an answer.
TIMEOUT_SECONDS = 3

_SQL = load("search/keywords")
_COLUMNS = {"text": Identifier("keywords"), "code": Identifier("code")}

_lock = Lock()
_sizes: TTLCache[UUID, tuple[float, float]] = TTLCache(MAX_REMEMBERED_SIZES, REMEMBERED_SIZE_SECONDS)
_shares: TTLCache[tuple[UUID, Field, str], float] = TTLCache(MAX_REMEMBERED_SHARES, REMEMBERED_SHARE_SECONDS)


def vectors(path: str, context: str, text: str, language: str) -> Keywords:
    """Return both fields of a chunk as Postgres reads a tsvector; label A marks tokens of the path.

    The path may be one `with_properties`.
    """
    rest = f"{context}\n{text}"
    return Keywords(
        _vector(text_words(path, language), text_words(rest, language)), _vector(code_words(path), code_words(rest))
    )


def path_vectors(path: str, language: str) -> Keywords:
    """Return the part of `vectors` that a move, or an edit of the properties, changes."""
    return Keywords(_vector(text_words(path, language)), _vector(code_words(path)))


def _vector(path: str, text: str = "") -> str:
    of_path = [f"{token}:{number}A" for number, token in enumerate(path.split(), 1)]
    return " ".join(of_path + [f"{token}:{number}" for number, token in enumerate(text.split(), len(of_path) + 1)])


def search(
    pool: Pool, values: Mapping[str, Any], field: Field, languages: frozenset[str], *, phrase: bool = False
) -> list[tuple[str, float]]:
    """Find chunks with any word of the query and their BM25 scores, best first, equal scores by id.

    `values` are the filters, `query`, `index_id` and `limit`. A chunk must contain every word of a `phrase`. Raises
    `StoreUnavailable` if Postgres takes too long.
    """
    with pool.connection() as connection:
        lexemes = phrase_tokens(values["query"])[1] if phrase else _lexemes(values["query"], field, languages)
        connection.execute(_SQL["bounds"], {"milliseconds": str(TIMEOUT_SECONDS * 1000)})
        try:
            return _ranked(connection, values, field, lexemes, phrase=phrase)
        except QueryCanceled as error:
            raise StoreUnavailable("Postgres takes too long for these keywords; use fewer or rarer words.") from error


def _lexemes(query: str, field: Field, languages: frozenset[str]) -> list[str]:
    """Return the longest tokens of the query, because they are likely to be rare."""
    tokens = set(query_tokens(query, field, languages))
    return sorted(tokens, key=lambda token: (-len(token), token))[:MAX_LEXEMES]


def _ranked(
    connection: Connection[Any], values: Mapping[str, Any], field: Field, lexemes: Sequence[str], *, phrase: bool
) -> list[tuple[str, float]]:
    index_id: UUID = values["index_id"]
    total, mean = _size(connection, index_id)
    frequencies = _frequencies(connection, index_id, field, lexemes, total)
    terms = sorted((number, lexeme) for lexeme, number in frequencies.items() if number)[:MAX_TERMS]
    if not terms or (phrase and not all(frequencies.values())):
        return []
    every = {"rare": " & ".join(map(quoted, lexemes)), "together": None}
    # never prepared: a generic plan takes ten times as long as a plan for these lexemes and filters
    statement = _SQL["search"].format(field=_COLUMNS[field])
    ranking = {
        "queries": [quoted(lexeme) for _, lexeme in terms],
        "weights": [math.log(1 + (max(total, number) - number + 0.5) / (number + 0.5)) for number, _ in terms],
        **(every if phrase else _choice(terms)),
        "anywhere": all(values[name] is None for name in ("file_node_ids", "id_paths", "folders", "endings")),
        "candidates": MAX_CANDIDATES,
        "k1": BM25_K1,
        "b": BM25_B,
        "mean": mean,
    }
    return connection.execute(statement, {**values, **ranking}, prepare=False).fetchall()


def _choice(terms: Sequence[tuple[float, str]]) -> dict[str, str | None]:
    """Choose the chunks to score: those with a rare lexeme; if even the rarest is common, first those with all.

    Of more than `MAX_CANDIDATES` chunks the first by id are taken, so that the choice is always the same.
    """
    matching = 0.0
    rare: list[str] = []
    for number, lexeme in terms:
        matching += number
        if rare and matching > MAX_CANDIDATES:
            break
        rare.append(quoted(lexeme))
    common = terms[0][0] > MAX_CANDIDATES
    return {"rare": " | ".join(rare), "together": " & ".join(quoted(lexeme) for _, lexeme in terms) if common else None}


def _size(connection: Connection[Any], index_id: UUID) -> tuple[float, float]:
    """Return the number of an index's live chunks and their mean length in tokens."""
    with _lock:
        size = _sizes.get(index_id)
    if size is None:
        row = connection.execute(_SQL["size"], {"index_id": index_id, "sample": SAMPLE_CHUNKS}).fetchone()
        size = (row[0] or 0.0, row[1] or 1.0) if row else (0.0, 1.0)
        if size[0] >= SAMPLE_CHUNKS:
            with _lock:
                _sizes[index_id] = size
    return size


def _frequencies(
    connection: Connection[Any], index_id: UUID, field: Field, lexemes: Sequence[str], total: float
) -> dict[str, float]:
    """Count an index's chunks with each lexeme.

    Rare lexemes are counted each time, because a new chunk may be the first.
    """
    with _lock:
        remembered = {lexeme: _shares.get((index_id, field, lexeme)) for lexeme in lexemes}
    missing = [lexeme for lexeme, share in remembered.items() if share is None]
    counted = _read_frequencies(connection, index_id, field, missing, total) if missing else {}
    if total >= SAMPLE_CHUNKS:
        # ignore counts above the cached total: chunks were added since
        common = {lexeme: number / total for lexeme, number in counted.items() if MIN_REMEMBERED <= number <= total}
        with _lock:
            _shares.update({(index_id, field, lexeme): share for lexeme, share in common.items()})
    return {lexeme: share * total for lexeme, share in remembered.items() if share is not None} | counted


def _read_frequencies(
    connection: Connection[Any], index_id: UUID, field: Field, lexemes: Sequence[str], total: float
) -> dict[str, float]:
    def run(name: str, of_lexemes: Sequence[str]) -> dict[str, float]:
        statement = _SQL[name].format(field=_COLUMNS[field])
        values = {
            "lexemes": list(of_lexemes),
            "queries": list(map(quoted, of_lexemes)),
            "limit": MAX_COUNT,
            "sample": SAMPLE_CHUNKS,
        }
        return dict(connection.execute(statement, {**values, "index_id": index_id}, prepare=False).fetchall())

    counted = run("frequencies", lexemes)
    common = [lexeme for lexeme, number in counted.items() if number >= MAX_COUNT]
    shares = run("shares", common) if common else {}
    return counted | {lexeme: max(MAX_COUNT, share * total) for lexeme, share in shares.items()}


def quoted(lexeme: str) -> str:
    """Quote a lexeme as Postgres reads a tsquery."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
