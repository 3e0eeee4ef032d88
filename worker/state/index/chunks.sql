-- name: live
SELECT file_id, id, content_hash, chunk_index, json_pointer, symbol, node_type, scope, language, level, embedded
FROM chunk WHERE file_id = ANY (%(files)s) AND live AND NOT lost ORDER BY file_id, chunk_index

-- name: lost
-- live, but without their vectors in the store
SELECT c.file_id, f.type, coalesce(f.live_path, f.path), c.id, chunk_index, content_hash, c.language, lead, trail, embedded,
       chunk_text, start_char, end_char, start_line, end_line, tokens_estimate, context, json_pointer, title, symbol,
       node_type, scope, level, page
FROM search_index_file f CROSS JOIN LATERAL (
    -- the order makes the plan look up each file: a join would read all chunks
    SELECT * FROM chunk c WHERE c.file_id = f.id AND c.live AND c.lost ORDER BY c.chunk_index) c
WHERE f.id = ANY (%(files)s) ORDER BY c.file_id, chunk_index

-- name: note_vectors
-- The store has these chunks. It now has their words too, unless Postgres keeps the words of all chunks.
UPDATE chunk SET lost = false, keywords = CASE WHEN NOT %(forget_words)s THEN keywords END,
    code = CASE WHEN NOT %(forget_words)s THEN code END
WHERE id = ANY (%(ids)s) AND lost

-- name: stage
CREATE TEMP TABLE IF NOT EXISTS staged_chunk ON COMMIT DELETE ROWS AS SELECT :staged_chunk_columns FROM chunk WITH NO DATA

-- name: copy
COPY staged_chunk FROM STDIN

-- name: draft
-- Records chunks that the store gets before they have rows: only for files that this worker still holds under the
-- index's current epoch. Returns the number of these files.
WITH held AS MATERIALIZED (
    SELECT f.id AS file_id, f.index_id, c.ids::uuid[] AS ids
    FROM unnest(%(files)s::uuid[], %(generations)s::bigint[], %(ids)s::text[]) AS c (file_id, generation, ids)
    CROSS JOIN :file_by_id
    -- without the status, as in still_claimed
    WHERE f.generation = c.generation AND f.lease_owner = %(owner)s
), i AS MATERIALIZED (
    SELECT id AS held_id, :hurry FROM search_index
    WHERE id = ANY (ARRAY (SELECT DISTINCT index_id FROM held)) AND epoch = %(epoch)s AND deleted_at IS NULL
    -- a transaction that cancels waits, and then finds these rows
    FOR SHARE
), noted AS (
    INSERT INTO chunk_draft AS d (file_id, index_id, ids)
    SELECT file_id, index_id, ids FROM held JOIN i ON held_id = index_id WHERE ids <> '{}' ORDER BY file_id
    -- an earlier attempt may have written other chunks
    ON CONFLICT (file_id) DO UPDATE SET ids = ARRAY (SELECT unnest(d.ids) UNION SELECT unnest(excluded.ids))
)
SELECT count(*) FROM held JOIN i ON held_id = index_id

-- name: bury
-- chunks that the finished files no longer contain, live or not, move to the tombstones
WITH gone AS (
    DELETE FROM chunk
    WHERE file_id = ANY (%(files)s) AND NOT id = ANY (%(kept)s::uuid[]) AND NOT (live AND file_id = ANY (%(failed)s))
    RETURNING id, index_id
), drafted AS (
    DELETE FROM chunk_draft WHERE file_id = ANY (%(files)s) RETURNING index_id, ids
), unused AS (
    SELECT id, index_id FROM (SELECT id, index_id FROM gone UNION ALL :without_row) o
    -- the other rows are written again
    WHERE NOT id = ANY (%(new)s::uuid[])
), buried AS (
    INSERT INTO chunk_tombstone (id, index_id) SELECT id, index_id FROM unused ON CONFLICT DO NOTHING
)
SELECT id FROM unused

-- name: write_live
COPY chunk (index_id, live, :staged_chunk_columns) FROM STDIN

-- name: give_words
-- live chunks whose vectors were lost: until they are written, Postgres finds their words
UPDATE chunk c SET keywords = s.keywords, code = s.code FROM staged_chunk s WHERE c.id = s.id AND c.live AND c.lost

-- name: bury_strays
-- For late-written vectors without a chunk row. They wait the full time again, even if they had a tombstone before.
INSERT INTO chunk_tombstone (id, index_id)
SELECT s.id, i.id FROM unnest(%(ids)s::uuid[]) AS s (id) JOIN search_index i ON i.id = %(index_id)s
WHERE NOT EXISTS (SELECT FROM chunk c WHERE c.id = s.id) AND NOT s.id = ANY (:drafted)
ON CONFLICT (id) DO UPDATE SET created_at = now(), deleted_at = NULL

-- name: is_there
SELECT FROM search_index WHERE id = %(index_id)s AND (deleted_at IS NULL OR deleted_at > now()) FOR KEY SHARE

-- name: move_kept
UPDATE chunk c
SET chunk_index = s.chunk_index, chunk_text = s.chunk_text, context = s.context, lead = s.lead, trail = s.trail, start_line = s.start_line,
    end_line = s.end_line, start_char = s.start_char, end_char = s.end_char, title = s.title,
    page = s.page, keywords = s.keywords, code = s.code
FROM staged_chunk s
WHERE c.id = s.id AND (c.chunk_index, c.lead, c.trail, c.start_line, c.end_line, c.start_char, c.end_char, c.title,
        c.page, c.chunk_text, c.keywords, c.code)
    IS DISTINCT FROM (s.chunk_index, s.lead, s.trail, s.start_line, s.end_line, s.start_char, s.end_char, s.title,
        s.page, s.chunk_text, s.keywords, s.code)

-- name: move_keywords
UPDATE chunk c SET keywords = s.keywords || ts_filter(c.keywords, '{d}'), code = s.code || ts_filter(c.code, '{d}')
FROM unnest(%(files)s::uuid[], %(keywords)s::tsvector[], %(codes)s::tsvector[]) s (file_id, keywords, code)
WHERE c.file_id = s.file_id AND c.keywords IS NOT NULL

-- name: of_file
SELECT id, context, chunk_text FROM chunk WHERE file_id = %(file_id)s AND live AND (embedded OR %(unembedded)s)

-- name: confirm_deleted
UPDATE chunk_tombstone SET deleted_at = now()
WHERE id IN (SELECT id FROM chunk_tombstone WHERE id = ANY (%(ids)s) AND deleted_at IS NULL FOR UPDATE SKIP LOCKED)

-- name: due_tombstones
-- the recursion skips from one index with tombstones to the next: most have none
WITH RECURSIVE owners AS (
    (SELECT index_id FROM chunk_tombstone ORDER BY index_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.index_id FROM chunk_tombstone d WHERE d.index_id > h.index_id ORDER BY d.index_id LIMIT 1)
    FROM owners h WHERE h.index_id IS NOT NULL
), chosen AS (
    SELECT i.id, i.namespace, (i.settings -> 'embedder' ->> 'dimensions')::int AS dimensions,
           coalesce(u.after, o.created_at) AS since
    FROM owners h JOIN search_index i ON i.id = h.index_id AND i.vector_store = %(vector_store)s
    LEFT JOIN search_index_upkeep u ON u.index_id = i.id
    CROSS JOIN LATERAL (
        SELECT c.created_at FROM chunk_tombstone c
        WHERE c.index_id = i.id
          AND (c.created_at < now() - %(late)s OR c.deleted_at IS NULL AND c.created_at < now() - %(patience)s)
        ORDER BY c.created_at LIMIT 1) o
    -- none is delayed for longer, unless Postgres' clock was set back
    WHERE coalesce(NOT u.after BETWEEN now() AND now() + %(longest)s, true)
    ORDER BY since LIMIT %(indexes)s
)
SELECT n.id AS index_id, n.namespace, n.dimensions, t.ids, coalesce(t.final, '{}') AS final
FROM chosen n CROSS JOIN LATERAL (
    SELECT array_agg(d.id) AS ids, array_agg(d.id) FILTER (WHERE d.final) AS final
    FROM (
        SELECT c.id, c.created_at < now() - %(late)s AS final FROM chunk_tombstone c
        WHERE c.index_id = n.id
          AND (c.created_at < now() - %(late)s OR c.deleted_at IS NULL AND c.created_at < now() - %(patience)s)
        ORDER BY c.created_at LIMIT %(each)s) d) t
ORDER BY n.since

-- name: purge_tombstones
DELETE FROM chunk_tombstone
WHERE id IN (SELECT id FROM chunk_tombstone WHERE id = ANY (%(ids)s) FOR UPDATE SKIP LOCKED)
