-- name: held_files
SELECT id FROM search_index_file WHERE index_id = %(index_id)s AND status = 'indexing'

-- name: waiting_files
SELECT id FROM search_index_file
WHERE index_id = %(index_id)s AND status = 'pending' AND id > %(after)s ORDER BY id LIMIT %(rows)s

-- name: bury_unfinished
-- chunks of open files that never became live, but that the store may have
WITH gone AS (
    DELETE FROM chunk WHERE file_id = ANY (%(files)s) AND NOT live RETURNING id, index_id
), drafted AS (
    DELETE FROM chunk_draft WHERE file_id = ANY (%(files)s) RETURNING index_id, ids
)
INSERT INTO chunk_tombstone (id, index_id) SELECT id, index_id FROM gone UNION ALL :without_row ON CONFLICT DO NOTHING

-- name: return_files
-- open files return to their live content; files without any stay pending, so most rows need no write
UPDATE search_index_file
SET status = CASE WHEN live_fingerprint IS NULL THEN 'pending' ELSE 'indexed' END,
    -- An empty stamp differs from any that a source returns, so the next task takes up the file again. It always takes
    -- up a file that only lacks vectors.
    stamp = CASE WHEN live_fingerprint IS NULL OR awaits_vectors THEN stamp ELSE '' END,
    work = CASE WHEN live_fingerprint IS NULL THEN work ELSE 'read' END,
    lease_owner = NULL, parsing = 0
WHERE id = ANY (%(files)s) AND (status = 'indexing' OR status = 'pending' AND live_fingerprint IS NOT NULL)

-- name: leave
UPDATE search_index_task SET leftover = true, leftover_after = %(after)s WHERE id = %(task_id)s

-- name: tidied
UPDATE search_index_task SET leftover = false WHERE id = %(task_id)s

-- name: left
-- ended tasks that left rows behind
SELECT id, index_id FROM search_index_task WHERE leftover ORDER BY finished_at LIMIT 100

-- name: hold
-- the last returned file, and whether no later task may work on the rest
SELECT t.leftover_after, NOT EXISTS (
    SELECT FROM search_index_task n WHERE n.index_id = t.index_id AND n.created_at > t.created_at)
FROM search_index_task t WHERE t.id = %(task_id)s AND t.leftover FOR NO KEY UPDATE OF t SKIP LOCKED

-- name: forget_listing
DELETE FROM search_index_listing WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM search_index_listing WHERE task_id = %(task_id)s LIMIT %(rows)s))

-- name: forget_removed
DELETE FROM search_index_file WHERE id = ANY (ARRAY (
    SELECT id FROM search_index_file
    WHERE index_id = %(index_id)s AND status = 'removed' AND updated_at < now() - %(kept)s
    -- in the order of the index of files that are not indexed
    ORDER BY path, id LIMIT %(rows)s FOR UPDATE SKIP LOCKED))
