"""Compares keyword search in Postgres with ts_rank and a plain BM25 library, over this repository and other packages.

The queries have known answers. The name of a function or class must find its definition, and so must the words of the
name. The first line of a docstring must find its chunk. The cost of a query is the processor time of Postgres, which
does not depend on other load.
"""

from __future__ import annotations

import hashlib
import math
import re
import statistics
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import bm25s
import psutil
from psycopg import Connection
from psycopg.sql import SQL, Identifier

from api.stack.postgres import postgres
from api.stack.record import ROOT
from schemas.errors import FileError
from tests.bench.formats import CHUNKS, MAX_TOKENS
from tests.parsing import parse
from worker.chunk import chunk
from worker.parse import Limits
from worker.state.index import chunks
from worker.state.index.chunks import PlacedChunk
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool
from worker.state.search import keywords
from worker.tokens.keywords import BM25_B, BM25_K1, IN_ENGLISH, query_tokens
from worker.tokens.tokenizers import cl100k

#: Number of chunks to search, and of queries of each kind.
NUMBER, QUERIES = 15_000, 100
LARGEST = 200_000
FILTERS = (
    *("file_node_ids", "id_paths", "below", "folders", "endings", "types", "languages"),
    *("symbols", "symbol_ids", "node_types", "scope", "scope_ids", "json_pointer", "level"),
)
#: Characters of a long query.
LONG = 10_000

FIELDS: dict[keywords.Field, Identifier] = {"text": Identifier("keywords"), "code": Identifier("code")}
INDEX = """
INSERT INTO search_index (id, project_id, identity, source, settings, vector_store, keyword_index, namespace)
VALUES (%(id)s, 'p', 'i', '{}', '{}', 'lancedb', 'postgres', 'n')
"""
FILE = """
INSERT INTO search_index_file (id, index_id, key, path, id_path, size_bytes, task_id, stamp, code_version, status,
    lease_owner, live_chunks)
VALUES (%s, %s, %s, %s, '', 1, %s, '', '', 'indexing', %s, %s)
"""
TS_RANK = """
SELECT c.id, ts_rank(c.{field}, %(query)s::tsquery, 1 | 32) AS value FROM chunk c
WHERE c.index_id = %(index_id)s AND c.live AND c.{field} @@ %(query)s::tsquery ORDER BY value DESC, c.id LIMIT 10
"""
WORDS = """
SELECT id, ARRAY(SELECT w.lexeme FROM unnest({field}) w, unnest(w.positions) ORDER BY 1) FROM chunk ORDER BY id
"""

Search = Callable[[str], Sequence[UUID]]
Item = tuple[str, set[UUID]]


def run(place: Path) -> None:
    with postgres(place) as url:
        migrate(url)
        with open_pool(url, max_size=1) as pool:
            placed = list(islice(_chunks(), NUMBER))
            index_id = fill(pool, placed)
            asked = known_items(placed)
            print(
                f"{len(placed)} chunks; queries: " + ", ".join(f"{len(some)} by {kind}" for kind, some in asked.items())
            )
            for field in FIELDS:
                compare(pool, index_id, field, asked)


def fill(pool: Pool, placed: Sequence[tuple[str, PlacedChunk]]) -> UUID:
    """Write the chunks as a worker does."""
    index_id, owner = uuid4(), uuid4()
    files = {p.file_id: path for path, p in placed}
    numbers = Counter(p.file_id for _, p in placed)
    with pool.connection() as connection:
        connection.execute(INDEX, {"id": index_id})
        rows = [(id_, index_id, path.encode(), path, uuid4(), owner, numbers[id_]) for id_, path in files.items()]
        connection.cursor().executemany(FILE, rows)
    started = time.process_time()
    written = [(p, keywords.vectors(path, p.chunk.context, p.chunk.text, "en"), False) for path, p in placed]
    spent = time.process_time() - started
    size = sum(len(p.chunk.text) for _, p in placed) / 1e6
    print(f"tokens of {size:.1f} MB made at {size / spent:.1f} MB/s, {len(placed) / spent:.0f} chunks/s")
    with pool.connection() as connection:
        chunks.write_live(connection, index_id, written)
    with pool.connection() as connection:
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE chunk")
        connection.autocommit = False
    return index_id


def _chunks() -> Iterator[tuple[str, PlacedChunk]]:
    """Chunks of this repository, then of installed packages, file by file in a fixed order, with their paths."""
    packages = Path(sysconfig.get_paths()["purelib"])
    ours = [path for name in ("api", "worker", "schemas", "tests") for path in sorted((ROOT / name).rglob("*.py"))]
    theirs = sorted(
        packages.rglob("*.py"), key=lambda path: hashlib.sha256(str(path.relative_to(packages)).encode()).digest()
    )
    for path in [*ours, *theirs]:
        if path.stat().st_size > LARGEST:
            continue
        place = str(path.relative_to(packages if packages in path.parents else ROOT))
        try:
            document = parse(place, path.read_bytes(), Limits())
        except FileError:
            continue
        file_id = uuid4()
        for number, piece in enumerate(chunk(document, CHUNKS, cl100k(), MAX_TOKENS)):
            # ids are hashes, as in a worker
            yield place, PlacedChunk(uuid5(file_id, str(number)), file_id, number, piece, "", document.language)


def known_items(placed: Sequence[tuple[str, PlacedChunk]]) -> dict[str, list[Item]]:
    """Queries of each kind, with the chunks that answer them."""
    defined, said = defaultdict[str, set[UUID]](set), defaultdict[str, set[UUID]](set)
    for _, p in placed:
        if p.chunk.symbol:
            defined[re.split(r"\W", p.chunk.symbol)[-1]].add(p.id)
        if line := re.search(r'"""([A-Z][^\n"]{30,120}?)\.?(?:"""|\n)', p.chunk.text):
            said[line[1]].add(p.id)
    names = [(name, ids) for name, ids in defined.items() if len(name) > 3 and len(ids) <= 3]
    spoken = [(" ".join(parts), ids) for name, ids in names if len(parts := _spoken(name)) > 1]
    found = {"name": names, "words of a name": spoken, "docstring": list(said.items())}
    return {kind: items[:: max(1, len(items) // QUERIES)][:QUERIES] for kind, items in found.items()}


def _spoken(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)


def compare(pool: Pool, index_id: UUID, field: keywords.Field, asked: dict[str, list[Item]]) -> None:
    plain = _library(pool, field)
    searches: dict[str, Search] = {
        "ts_rank": _ts_rank(pool, index_id, field),
        "ours": _ours(pool, index_id, field),
        "bm25s": plain,
    }
    for kind, items in asked.items():
        for name, search in searches.items():
            before = _spent(pool)
            answers = [list(search(query)) for query, _ in items]
            cost = (_spent(pool) - before) / len(items) * 1000
            shared = statistics.mean(
                _overlap(found, plain(query)) for found, (query, _) in zip(answers, items, strict=True)
            )
            ranks = [_rank(found, good) for found, (_, good) in zip(answers, items, strict=True)]
            mrr, ndcg = statistics.mean(ranks), statistics.mean(map(_ndcg, answers, (good for _, good in items)))
            print(
                f"{field:5}{kind:16}{name:8} MRR {mrr:.3f}  nDCG@10 {ndcg:.3f}  top 10 as bm25s {shared:.0%}"
                f"  Postgres {cost:.1f} ms"
            )
    long = " ".join((ROOT / "README.md").read_text().split())[:LONG]
    before = _spent(pool)
    searches["ours"](long)
    print(f"{field:5}a query of {LONG} characters: Postgres {(_spent(pool) - before) * 1000:.0f} ms")


def _ours(pool: Pool, index_id: UUID, field: keywords.Field) -> Search:
    values: dict[str, Any] = {**dict.fromkeys(FILTERS), "index_id": index_id, "limit": 10}
    return lambda query: [UUID(id_) for id_, _ in keywords.search(pool, {**values, "query": query}, field, IN_ENGLISH)]


def _ts_rank(pool: Pool, index_id: UUID, field: keywords.Field) -> Search:
    """The previous ranking: any word matches, and all words weigh the same."""

    def search(query: str) -> list[UUID]:
        with pool.connection() as connection:
            any_of = " | ".join(map(keywords.quoted, _lexemes(connection, query, field)))
            statement = SQL(TS_RANK).format(field=FIELDS[field])
            return [id_ for id_, _ in connection.execute(statement, {"query": any_of, "index_id": index_id})]

    return search


def _lexemes(connection: Connection[Any], query: str, field: keywords.Field) -> list[str]:
    return query_tokens(query, field, IN_ENGLISH)


def _library(pool: Pool, field: keywords.Field) -> Search:
    """A plain BM25 over the same lexemes of all chunks."""
    with pool.connection() as connection:
        rows = connection.execute(SQL(WORDS).format(field=FIELDS[field])).fetchall()
    library = bm25s.BM25(method="lucene", k1=BM25_K1, b=BM25_B)
    library.index([words for _, words in rows], show_progress=False)

    def search(query: str) -> list[UUID]:
        with pool.connection() as connection:
            lexemes = _lexemes(connection, query, field)
        lexemes = [lexeme for lexeme in lexemes if lexeme in library.vocab_dict]
        if not lexemes:
            return []
        found, scores = library.retrieve([lexemes], k=10, show_progress=False)
        return [rows[number][0] for number, score in zip(found[0], scores[0], strict=True) if score > 0]

    return search


def _spent(pool: Pool) -> float:
    """Seconds of processor time of the server process of the only connection so far."""
    with pool.connection() as connection:
        times = psutil.Process(connection.info.backend_pid).cpu_times()
    return float(times.user + times.system)


def _overlap(found: Sequence[UUID], plain: Sequence[UUID]) -> float:
    return len(set(found) & set(plain)) / len(plain) if plain else 1.0


def _rank(found: Sequence[UUID], good: set[UUID]) -> float:
    return next((1 / rank for rank, id_ in enumerate(found, 1) if id_ in good), 0.0)


def _ndcg(found: Sequence[UUID], good: set[UUID]) -> float:
    gained = sum(1 / math.log2(rank + 1) for rank, id_ in enumerate(found, 1) if id_ in good)
    return gained / sum(1 / math.log2(rank + 1) for rank in range(1, min(len(good), 10) + 1))
