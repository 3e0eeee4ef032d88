-- name: indexes
SELECT i.id FROM search_index i
WHERE i.deleted_at IS NULL
  AND (%(tool_id)s::uuid IS NULL OR EXISTS (SELECT FROM search_tool s WHERE s.index_id = i.id AND s.id = %(tool_id)s))
ORDER BY i.namespace

-- name: prefer_order
-- The planner reads rows in the order of an index until the transaction ends. Otherwise it reads and sorts all chunks
-- of a folder for each page, because it expects few chunks until Postgres has counted those that were written last.
SELECT set_config('enable_sort', 'off', true)

-- name: live_ids
-- chunks that the store holds: those without a vector only if it keeps the keywords
SELECT id FROM chunk
WHERE index_id = %(index_id)s AND live AND (%(after)s::uuid IS NULL OR id > %(after)s)
  AND (embedded OR (SELECT keyword_index = 'store' FROM search_index WHERE id = %(index_id)s))
  -- the next run writes chunks that a stopped run, or a failed file, left
  AND NOT (lost AND (SELECT f.awaits_vectors OR f.status = 'failed' FROM search_index_file f WHERE f.id = file_id))
ORDER BY id LIMIT %(limit)s

-- name: still_live
SELECT id FROM chunk
WHERE id = ANY (%(ids)s) AND index_id = %(index_id)s AND live AND (%(include_lost)s OR NOT lost) ORDER BY id

-- name: unknown
SELECT s.id FROM unnest(%(ids)s::uuid[]) AS s(id)
WHERE NOT EXISTS (SELECT FROM chunk c WHERE c.id = s.id AND c.index_id = %(index_id)s) AND NOT s.id = ANY (:drafted)
  AND NOT EXISTS (SELECT FROM chunk_tombstone d WHERE d.id = s.id)
ORDER BY s.id

-- name: count_files
-- "bare" is indexed without a chunk; "miscounted" has a different number of chunks than its row states
SELECT count(*) FILTER (WHERE NOT bare) AS miscounted, count(*) FILTER (WHERE bare) AS bare
FROM (
    SELECT f.status = 'indexed' AND c.chunks IS NULL AS bare
    FROM search_index_file f
    LEFT JOIN (
        SELECT file_id, count(*) AS chunks FROM chunk WHERE index_id = %(index_id)s AND live GROUP BY file_id
    ) c ON c.file_id = f.id
    WHERE f.index_id = %(index_id)s
      AND (f.live_chunks <> coalesce(c.chunks, 0) OR f.status = 'indexed' AND c.chunks IS NULL)
) wrong

-- name: count_rows
WITH drafted AS (
    SELECT index_id, ids FROM chunk_draft WHERE index_id = %(index_id)s
)
SELECT count(*) FILTER (WHERE live) AS live,
       count(*) FILTER (WHERE NOT live) + (SELECT count(*) FROM (:without_row) w) AS unfinished,
       (SELECT count(*) FROM chunk_tombstone d
        WHERE d.index_id = %(index_id)s AND d.created_at < now() - %(overdue)s) AS overdue
FROM chunk WHERE index_id = %(index_id)s

-- name: hold
-- transactions that begin a task or finish files wait until this one ends
SELECT epoch FROM search_index WHERE id = %(index_id)s AND deleted_at IS NULL FOR NO KEY UPDATE

-- name: busy
SELECT EXISTS (SELECT FROM search_index_task WHERE index_id = %(index_id)s AND status IN :open)

-- name: mark_lost
WITH marked AS (
    UPDATE chunk SET lost = true WHERE id = ANY (%(ids)s) AND live AND NOT lost RETURNING file_id, embedded
)
UPDATE search_index_file f SET lost = true, vectors_due = f.vectors_due + m.chunks, awaits_vectors = false
FROM (SELECT file_id, count(*) FILTER (WHERE embedded) AS chunks FROM marked GROUP BY file_id) m WHERE f.id = m.file_id

-- name: count_unpaid
SELECT count(DISTINCT c.content_hash) FROM chunk c
WHERE c.index_id = %(index_id)s AND c.live AND c.lost AND c.embedded
  AND NOT EXISTS (
      SELECT FROM embedding_cache e
      WHERE e.project_id = %(project_id)s AND e.embedder = %(embedder)s
        AND e.text_hash = decode(replace(c.content_hash, 'sha256:', ''), 'hex'))

-- name: take_up
-- nothing is read: the live chunks of these files are correct, only their vectors are gone
UPDATE search_index_file
SET work = 'path', task_id = %(task_id)s, :set_pending, attempts = 0
WHERE index_id = %(index_id)s AND lost AND status = 'indexed'

-- name: recount
-- an empty stamp and fingerprint equal none that a source returns: the next task reads and chunks these files again
UPDATE search_index_file f
SET live_chunks = coalesce(c.chunks, 0), live_tokens = coalesce(c.tokens, 0), vectors_due = coalesce(c.due, 0), stamp = '',
    live_fingerprint = CASE WHEN c.chunks > 0 THEN '' END
FROM search_index_file o
LEFT JOIN (
    SELECT file_id, count(*) AS chunks, sum(tokens_estimate) AS tokens, count(*) FILTER (WHERE lost AND embedded) AS due
    FROM chunk WHERE index_id = %(index_id)s AND live GROUP BY file_id
) c ON c.file_id = o.id
WHERE f.id = o.id AND o.index_id = %(index_id)s
  AND (o.live_chunks <> coalesce(c.chunks, 0) OR o.status = 'indexed' AND c.chunks IS NULL)

-- name: bury_unfinished
WITH gone AS (
    DELETE FROM chunk WHERE index_id = %(index_id)s AND NOT live RETURNING id, index_id
), drafted AS (
    DELETE FROM chunk_draft WHERE index_id = %(index_id)s RETURNING index_id, ids
)
INSERT INTO chunk_tombstone (id, index_id) SELECT id, index_id FROM gone UNION ALL :without_row ON CONFLICT DO NOTHING

-- name: overdue
SELECT id FROM chunk_tombstone
WHERE index_id = %(index_id)s AND created_at < now() - %(overdue)s ORDER BY created_at LIMIT %(limit)s

-- name: owner
-- the oldest tool owns tasks that no tool requested
SELECT s.id, i.folder_node_id FROM search_tool s, search_index i
WHERE i.id = %(index_id)s AND %(index_id)s IN (s.index_id, s.next_index_id) ORDER BY s.created_at, s.id LIMIT 1

-- name: expected
-- the expected attributes of live chunks whose files are idle
SELECT c.id, coalesce(f.node_id, f.id::text) AS file_node_id, f.live_id_path AS file_id_path,
       substring(f.live_path FROM '[^/]*$') AS file_name, f.type AS file_type, c.json_pointer, c.content_hash,
       c.id::text AS chunk_id, c.language, c.symbol, c.node_type, c.scope, c.level
FROM chunk c CROSS JOIN :file_by_id
WHERE c.id = ANY (%(ids)s) AND c.index_id = %(index_id)s AND c.live AND NOT c.lost AND f.status = 'indexed'

-- name: words
SELECT c.id, f.live_path, f.properties, f.type, c.context, c.chunk_text, coalesce(f.words_language, %(default)s)
FROM chunk c CROSS JOIN :file_by_id WHERE c.id = ANY (%(ids)s)

-- name: lock_generations
SELECT pg_advisory_xact_lock(hashtext('claim_generation'))

-- name: next_generation
-- far ahead: after a failover the standby may have lost the latest numbers, which the store remembers
SELECT setval('claim_generation', nextval('claim_generation') + 1000000)

-- name: cursor
SELECT check_cursor FROM search_index WHERE id = %(index_id)s

-- name: compared
UPDATE search_index i SET checked_at = now(), check_cursor = %(cursor)s, check_every = :check_every
WHERE id = %(index_id)s

-- name: due
UPDATE search_index i SET checked_at = now(), check_every = :check_every
WHERE id = ANY (ARRAY (
    SELECT i.id FROM search_index i
    WHERE i.deleted_at IS NULL AND (i.checked_at IS NULL OR i.checked_at < now() - coalesce(i.check_every, %(every)s))
      AND NOT EXISTS (
          SELECT FROM search_index_task t WHERE t.index_id = i.id AND t.status IN :open)
    ORDER BY i.checked_at NULLS FIRST LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED))
RETURNING id

-- name: request_comparison
UPDATE search_index SET checked_at = NULL
WHERE id = (SELECT id FROM search_index WHERE id = %(index_id)s FOR NO KEY UPDATE SKIP LOCKED)
  AND checked_at < now() - %(pause)s AND EXISTS (SELECT FROM chunk WHERE index_id = %(index_id)s AND live AND embedded AND NOT lost)

-- name: any_embedded
-- Postgres has words of chunks that are written together with their vectors. Without words, due vectors were lost.
SELECT EXISTS (SELECT FROM search_index_file WHERE index_id = %(index_id)s AND live_chunks > vectors_due AND live_embedded)
    OR EXISTS (SELECT FROM search_index_file WHERE index_id = %(index_id)s AND live_chunks > 0 AND live_embedded)
       AND NOT EXISTS (SELECT FROM chunk WHERE index_id = %(index_id)s AND live AND lost AND keywords IS NOT NULL)
