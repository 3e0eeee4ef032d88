"""Measures what depends on the chunks of all tenants, over one table with more and more of them.

`CHUNKS="1000000 20000000"` measures other numbers than the usual ones.
"""

from __future__ import annotations

import os
from pathlib import Path

from api.stack.postgres import postgres
from schemas.content.source import EmbedderProfile
from tests.bench.size.rows import INDEXES, fill, rows, spending
from worker.state.index import embedding_cache
from worker.state.index.embedding_cache import VectorOwner
from worker.state.migrate import migrate
from worker.state.pool import Pool, open_pool
from worker.state.search import keywords
from worker.tokens.keywords import IN_ENGLISH

NUMBERS = (100_000, 300_000, 1_000_000)
#: Chunks of each index, and vectors in the cache, half of which are live.
CHUNKS_OF_INDEX = 10_000
CACHED = 50_000

#: What a search can be narrowed by.
FILTERS = (
    *("file_node_ids", "id_paths", "below", "folders", "endings", "types", "languages", "symbols", "symbol_ids"),
    *("node_types", "scope", "scope_ids", "json_pointer", "level"),
)
#: Texts of four words, of which one is in every chunk and one in every hundredth. Those of a file follow each other.
CHUNKS = """
INSERT INTO chunk (id, index_id, file_id, live, chunk_index, chunk_text, context, lead, trail, content_hash,
    tokens_estimate, start_line, end_line, start_char, end_char, keywords)
SELECT gen_random_uuid(), f.index_id, f.id, true, n, 'text', '', '', '',
    'sha256:' || encode(sha256((f.index_id::text || n)::bytea), 'hex'), 4, 1, 1, 0, 4,
    array_to_tsvector(ARRAY['common', 'rare' || n % 100, 'word' || n % 10, 'only' || n])
FROM search_index_file f, generate_series(1, %(chunks)s) n
ORDER BY f.id, n
""".replace("n % 1", "n %% 1")
CACHE = """
INSERT INTO embedding_cache (project_id, embedder, text_hash, vector, used_at)
SELECT i.project_id, 'm 4 float32', decode(substring(c.content_hash FROM 8), 'hex'), ''::bytea,
    now() - interval '2 days'
FROM (SELECT index_id, content_hash FROM chunk LIMIT %(cached)s / 2) c JOIN search_index i ON i.id = c.index_id
UNION ALL
SELECT 'project-0', 'm 4 float32', sha256(n::text::bytea), ''::bytea,
    now() - interval '2 days' - n * interval '1 ms'
FROM generate_series(1, %(cached)s / 2) n
"""


def run(place: Path) -> None:
    for number in [int(number) for number in os.environ.get("CHUNKS", "").split()] or NUMBERS:
        with postgres(place / str(number)) as url:
            migrate(url)
            with open_pool(url) as pool:
                _measure(url, pool, number)


def _measure(url: str, pool: Pool, number: int) -> None:
    fill(url, INDEXES, indexes=max(1, number // CHUNKS_OF_INDEX))
    with spending(pool) as spent:
        fill(url, CHUNKS, chunks=CHUNKS_OF_INDEX)
    ((bytes_,),) = rows(pool, "SELECT pg_total_relation_size('chunk')")
    print(f"{number} chunks, {bytes_ / number:.0f} bytes each, {spent.processor / number * 1e6:.0f} µs each to write")
    fill(url, CACHE, cached=CACHED)
    with spending(pool) as spent:
        evicted, _ = embedding_cache.evict(pool, spare=CACHED // 4, maximum=CACHED, seconds=60)
    print(f"    eviction of {evicted} of {CACHED} cached vectors: {spent}")
    _look_up(pool)
    _search(pool)


def _look_up(pool: Pool) -> None:
    found = rows(
        pool, "SELECT i.project_id, c.content_hash FROM chunk c JOIN search_index i ON i.id = c.index_id LIMIT 1000"
    )
    owner = VectorOwner(found[0][0], EmbedderProfile(model="m", dimensions=4))
    with spending(pool) as spent:
        embedding_cache.live_elsewhere(pool, owner, "lancedb", [hash_ for _, hash_ in found])
    print(f"    1,000 texts looked for in the project's other indexes: {spent}", flush=True)


def _search(pool: Pool) -> None:
    ((index_id,),) = rows(pool, "SELECT index_id FROM chunk LIMIT 1")
    for query in ("common", "rare7"):
        values = {**dict.fromkeys(FILTERS), "index_id": index_id, "query": query, "limit": 10}
        with spending(pool) as spent:
            found = keywords.search(pool, values, "text", IN_ENGLISH)
        assert len(found) == values["limit"]
        print(f"    the word {query} in one index of {CHUNKS_OF_INDEX} chunks: {spent}", flush=True)
