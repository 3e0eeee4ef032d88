-- name: create
INSERT INTO search_index_task (id, tool_id, index_id, folder_node_id, kind, allow_removals)
VALUES (%(id)s, %(tool_id)s, %(index_id)s, %(folder_node_id)s, %(kind)s, %(allow_removals)s)
ON CONFLICT (index_id) WHERE status IN ('pending', 'indexing') DO NOTHING

-- name: newest
SELECT t.*, i.namespace
FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.index_id = %(index_id)s ORDER BY t.created_at DESC, t.id DESC LIMIT 1

-- name: history
SELECT t.*, i.namespace
FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.index_id = %(index_id)s
  AND (%(before_time)s::timestamptz IS NULL OR (t.created_at, t.id) < (%(before_time)s, %(before_id)s))
ORDER BY t.created_at DESC, t.id DESC LIMIT %(limit)s

-- name: lock_index
-- before the task, as those who create and delete tools do: two orders would be a deadlock
SELECT FROM search_index i JOIN search_index_task t ON t.index_id = i.id WHERE t.id = %(task_id)s FOR NO KEY UPDATE OF i

-- name: begin_plan
UPDATE search_index_task t
SET plan_owner = %(owner)s, plan_until = now() + %(lease)s, status = 'indexing', started_at = coalesce(started_at, now())
WHERE id = %(task_id)s AND status IN ('pending', 'indexing') AND listing
  AND (plan_until IS NULL OR plan_until < now() AND pg_postmaster_start_time() < now() - interval '10 s')
RETURNING id, index_id, tool_id, list_cursor, epoch

-- name: raise_epoch
WITH raised AS (
    UPDATE search_index SET epoch = epoch + 1 WHERE id = %(index_id)s AND deleted_at IS NULL RETURNING epoch
)
UPDATE search_index_task SET epoch = raised.epoch FROM raised WHERE id = %(task_id)s RETURNING search_index_task.epoch

-- name: save_cursor
UPDATE search_index_task t
SET list_cursor = %(cursor)s, unlisted = unlisted || %(unlisted)s::bytea[]
FROM search_index i
WHERE t.id = %(task_id)s AND t.plan_owner = %(owner)s AND t.status = 'indexing' AND i.id = t.index_id AND i.epoch = t.epoch

-- name: end_listing
UPDATE search_index_task
SET listing = false, plan_owner = NULL, plan_until = NULL, held_removals = %(held)s, warning = coalesce(%(warning)s, warning)
WHERE id = %(task_id)s

-- name: release_plan
UPDATE search_index_task SET plan_owner = NULL, plan_until = NULL WHERE id = %(task_id)s AND plan_owner = %(owner)s

-- name: running
SELECT t.id, t.index_id, t.tool_id, t.epoch, t.listing, t.total_files,
       t.indexed_files + t.skipped_files + t.failed_files AS done_files
FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.id = %(task_id)s AND t.status = 'indexing' AND i.epoch = t.epoch AND i.deleted_at IS NULL

-- name: beat
WITH files AS (
    UPDATE search_index_file SET lease_until = now() + %(lease)s
    WHERE lease_owner = %(owner)s AND status = 'indexing'
), plan AS (
    UPDATE search_index_task SET plan_until = now() + %(lease)s WHERE plan_owner = %(owner)s
)
SELECT 1 FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.id = %(task_id)s AND t.status = 'indexing' AND i.epoch = t.epoch

-- name: refresh
-- counts the file rows into the task's row; progress is by bytes and never falls
UPDATE search_index_task t
SET total_files = c.total, indexed_files = c.indexed, skipped_files = c.skipped, failed_files = c.failed,
    removed_files = c.removed, total_chunks = c.chunks, embedded_chunks = c.embedded, reused_chunks = c.reused,
    tokens = c.tokens,
    progress = greatest(t.progress, least(CASE WHEN t.listing THEN 0.99 ELSE 0.999 END, c.done_bytes / c.bytes))
FROM (
    SELECT count(*) FILTER (WHERE status <> 'removed' AND work <> 'remove') AS total,
           count(*) FILTER (WHERE status = 'indexed') AS indexed,
           count(*) FILTER (WHERE status = 'skipped') AS skipped,
           count(*) FILTER (WHERE status = 'failed') AS failed,
           count(*) FILTER (WHERE status = 'removed' AND task_id = %(task_id)s) AS removed,
           coalesce(sum(live_chunks), 0) AS chunks,
           coalesce(sum(embedded_chunks) FILTER (WHERE task_id = %(task_id)s), 0) AS embedded,
           coalesce(sum(reused_chunks) FILTER (WHERE task_id = %(task_id)s), 0) AS reused,
           coalesce(sum(tokens) FILTER (WHERE task_id = %(task_id)s), 0) AS tokens,
           coalesce(sum(size_bytes + 1) FILTER (WHERE status IN ('indexed', 'skipped', 'failed')), 0)::float8 AS done_bytes,
           coalesce(sum(size_bytes + 1) FILTER (WHERE status <> 'removed'), 0)::float8 + 1 AS bytes
    FROM search_index_file WHERE index_id = %(index_id)s
) c
WHERE t.id = %(task_id)s AND t.status = 'indexing'

-- name: close
UPDATE search_index_task t
SET status = CASE WHEN t.failed_files > 0 AND t.total_chunks = 0 THEN 'error' ELSE 'ready' END,
    error = CASE WHEN t.failed_files > 0 AND t.total_chunks = 0 THEN (
        SELECT format('No file could be indexed: %%s failed. %%s: %%s', t.failed_files, f.path, f.message)
        FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'failed' ORDER BY f.path LIMIT 1) END,
    progress = CASE WHEN t.failed_files > 0 AND t.total_chunks = 0 THEN t.progress ELSE 1 END,
    finished_at = now()
WHERE t.id = %(task_id)s AND t.status = 'indexing' AND NOT t.listing
  AND NOT EXISTS (
      SELECT FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'pending')
  AND NOT EXISTS (
      SELECT FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'indexing')
RETURNING t.id

-- name: fail
UPDATE search_index_task t SET status = 'error', error = %(error)s, finished_at = now(), plan_owner = NULL, plan_until = NULL
WHERE t.id = %(task_id)s AND t.status IN ('pending', 'indexing')

-- name: fail_open_files
UPDATE search_index_file
SET status = CASE WHEN live_fingerprint IS NULL THEN 'pending' ELSE 'indexed' END,
    -- an empty stamp differs from any that a source gives: the next task takes the file up again
    stamp = '', work = 'read', lease_owner = NULL, lease_until = NULL
WHERE index_id = %(index_id)s AND status IN ('pending', 'indexing')

-- name: warn
UPDATE search_index_task SET warning = %(warning)s WHERE id = %(task_id)s AND status = 'indexing'

-- name: sent
UPDATE search_index_task SET sent_at = now() WHERE id = %(task_id)s

-- name: unplanned
-- pending or half-listed tasks nobody works on, whose message may be lost
SELECT t.id, t.tool_id FROM search_index_task t
WHERE t.status IN ('pending', 'indexing') AND t.listing AND (t.plan_until IS NULL OR t.plan_until < now())
  AND coalesce(t.sent_at, t.created_at) < now() - %(patience)s

-- name: open_tasks
SELECT t.id, t.index_id,
       EXISTS (SELECT FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'pending') AS waiting,
       (SELECT count(DISTINCT f.lease_owner) FROM search_index_file f
        WHERE f.index_id = t.index_id AND f.status = 'indexing') AS slices,
       coalesce(t.sent_at, t.created_at) < now() - %(patience)s AS quiet
FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.status = 'indexing' AND i.epoch = t.epoch

-- name: clear_listing
DELETE FROM search_index_listing WHERE task_id = %(task_id)s
