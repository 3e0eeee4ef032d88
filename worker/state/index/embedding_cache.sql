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
-- In a fixed order, so that two writers of the same texts wait for each other instead of deadlocking. Not for a project
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
    SELECT id, namespace FROM search_index
    WHERE project_id = %(project_id)s AND deleted_at IS NULL AND vector_store = %(vector_store)s
      AND concat_ws(' ', settings #>> '{embedder,model}', settings #>> '{embedder,dimensions}',
                    settings #>> '{embedder,precision}') = %(embedder)s
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

-- name: choose_spare
CREATE TEMP TABLE evicted AS
SELECT e.project_id, e.embedder, e.text_hash, e.used_at FROM embedding_cache e
WHERE NOT EXISTS (
    SELECT FROM chunk c JOIN search_index i ON i.id = c.index_id
    WHERE c.live AND i.deleted_at IS NULL AND i.project_id = e.project_id
      AND concat_ws(' ', i.settings #>> '{embedder,model}', i.settings #>> '{embedder,dimensions}',
                    i.settings #>> '{embedder,precision}') = e.embedder
      AND c.content_hash = 'sha256:' || encode(e.text_hash, 'hex'))
ORDER BY e.used_at DESC OFFSET %(keep)s

-- name: choose_oldest
CREATE TEMP TABLE evicted AS
SELECT project_id, embedder, text_hash, used_at FROM embedding_cache ORDER BY used_at DESC OFFSET %(keep)s

-- name: evict
WITH chosen AS (
    DELETE FROM evicted WHERE ctid = ANY (ARRAY (SELECT ctid FROM evicted LIMIT %(batch)s))
    RETURNING project_id, embedder, text_hash, used_at
)
DELETE FROM embedding_cache e USING chosen s
WHERE e.project_id = s.project_id AND e.embedder = s.embedder AND e.text_hash = s.text_hash AND e.used_at = s.used_at

-- name: forget_choice
DROP TABLE IF EXISTS pg_temp.evicted
