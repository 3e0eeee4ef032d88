-- name: lookup
-- hashes arrive joined, each in 32 bytes
SELECT text_hash, vector, used_at < now() - %(rest)s AS rested FROM embedding_cache
WHERE project_id = %(project_id)s AND embedder = %(embedder)s AND text_hash = ANY (ARRAY (
    SELECT substr(%(hashes)s::bytea, n, 32) FROM generate_series(1, length(%(hashes)s::bytea), 32) AS n))

-- name: touch
-- skips locked rows: the transaction that locks one touches it as well
UPDATE embedding_cache e SET used_at = now()
FROM (
    SELECT text_hash FROM embedding_cache
    WHERE project_id = %(project_id)s AND embedder = %(embedder)s AND text_hash = ANY (ARRAY (
        SELECT substr(%(hashes)s::bytea, n, 32) FROM generate_series(1, length(%(hashes)s::bytea), 32) AS n))
    FOR UPDATE SKIP LOCKED
) s
WHERE e.project_id = %(project_id)s AND e.embedder = %(embedder)s AND e.text_hash = s.text_hash

-- name: hold_project
-- Deleting a project's vectors takes this lock exclusively. Its key differs from that of `index_switch.lock_project`.
SELECT pg_advisory_xact_lock_shared(hashtextextended('embedding_cache ' || %(project_id)s, 0))

-- name: insert
-- In a fixed order, so that two writers of the same texts wait for each other instead of deadlocking. Skips a project
-- that was deleted while the answer was on its way.
INSERT INTO embedding_cache (project_id, embedder, text_hash, vector)
SELECT %(project_id)s, %(embedder)s, substr(%(hashes)s::bytea, 32 * n + 1, 32),
       substr(%(vectors)s::bytea, %(vector_bytes)s * n + 1, %(vector_bytes)s)
FROM generate_series(0, length(%(hashes)s::bytea) / 32 - 1) AS n
WHERE EXISTS (SELECT FROM search_tool WHERE project_id = %(project_id)s)
ORDER BY 3
ON CONFLICT DO NOTHING

-- name: live_elsewhere
-- Texts that are live in an index of the same project, embedder and vector store. Only this project's rows are read, so
-- that not even timing reveals another project's. At most 50 of its indexes are read, which takes up to half a second.
WITH i AS MATERIALIZED (
    SELECT id, namespace FROM search_index i
    WHERE project_id = %(project_id)s AND deleted_at IS NULL AND vector_store = %(vector_store)s
      AND :embedder_of = %(embedder)s
    ORDER BY created_at DESC LIMIT 50
)
SELECT h.hash, found.namespace, found.id
FROM unnest(%(hashes)s::text[]) AS h (hash) CROSS JOIN LATERAL (
    SELECT i.namespace, c.id FROM i CROSS JOIN LATERAL (
        -- one by one through the index: a join would read all chunks for every claim
        SELECT c.id FROM chunk c
        WHERE c.index_id = i.id AND hashtextextended(c.content_hash, 0) = hashtextextended(h.hash, 0)
          AND c.content_hash = h.hash AND c.live AND c.embedded AND NOT c.lost LIMIT 1) c
    LIMIT 1) found

-- name: due
-- at most one worker per interval
INSERT INTO upkeep (name, ran_at) VALUES ('embedding_cache', now())
ON CONFLICT (name) DO UPDATE SET ran_at = now() WHERE upkeep.ran_at < now() - %(every)s

-- name: count
SELECT count(*) FROM embedding_cache

-- name: hold_pass
-- the position of the pass over the cache; two workers take turns
INSERT INTO embedding_cache_pass AS p (began) VALUES (clock_timestamp())
ON CONFLICT (id) DO UPDATE SET began = coalesce(p.began, clock_timestamp())
RETURNING began, used_at, project_id, embedder, text_hash, spare, excess

-- name: probe
-- The next entries of a pass, the least recently used first. The last column is true if the text is live in no index of
-- the project and embedder. At most 50 indexes are searched, as in `live_elsewhere`.
WITH batch AS MATERIALIZED (
    SELECT project_id, embedder, text_hash, used_at FROM embedding_cache
    -- the first condition is for the index; entries of one transaction share their time
    WHERE used_at >= %(used_at)s AND used_at <= %(began)s
      AND (used_at, project_id, embedder, text_hash) > (%(used_at)s, %(project_id)s, %(embedder)s, %(text_hash)s)
    ORDER BY used_at, project_id, embedder, text_hash LIMIT %(batch)s
), i AS MATERIALIZED (
    SELECT * FROM (
        SELECT i.id, i.project_id, :embedder_of AS embedder,
            row_number() OVER (PARTITION BY i.project_id, :embedder_of ORDER BY i.created_at DESC) AS place
        FROM search_index i
        WHERE i.deleted_at IS NULL AND i.project_id = ANY (ARRAY (SELECT DISTINCT project_id FROM batch))
    ) n WHERE place <= 50
)
SELECT b.used_at, b.project_id, b.embedder, b.text_hash, NOT EXISTS (
    SELECT FROM i CROSS JOIN LATERAL (
        -- one by one through the index: a join would read all chunks
        SELECT FROM chunk c
        WHERE c.index_id = i.id AND c.live AND c.content_hash = 'sha256:' || encode(b.text_hash, 'hex')
          AND hashtextextended(c.content_hash, 0) = hashtextextended('sha256:' || encode(b.text_hash, 'hex'), 0)
        LIMIT 1) c
    WHERE i.project_id = b.project_id AND i.embedder = b.embedder)
FROM batch b ORDER BY b.used_at, b.project_id, b.embedder, b.text_hash

-- name: evict
-- entries that were used in between stay
DELETE FROM embedding_cache e
USING unnest(%(times)s::timestamptz[], %(projects)s::text[], %(embedders)s::text[], %(hashes)s::bytea[])
    AS s (used_at, project_id, embedder, text_hash)
WHERE e.project_id = s.project_id AND e.embedder = s.embedder AND e.text_hash = s.text_hash AND e.used_at = s.used_at

-- name: move_pass
UPDATE embedding_cache_pass SET used_at = %(used_at)s, project_id = %(project_id)s, embedder = %(embedder)s,
    text_hash = %(text_hash)s, spare = %(spare)s, excess = %(excess)s

-- name: end_pass
UPDATE embedding_cache_pass SET began = NULL, used_at = DEFAULT, project_id = DEFAULT, embedder = DEFAULT,
    text_hash = DEFAULT, spare = 0, excess = %(excess)s
WHERE began IS NOT NULL OR excess > 0

-- name: evict_oldest
DELETE FROM embedding_cache WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM embedding_cache ORDER BY used_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED))
