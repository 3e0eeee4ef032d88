-- name: due
-- Counting a million rows takes a second. One process at a time does it, using at most a hundredth of a core; in
-- between, workers' increments update the counts.
SELECT FROM search_index_task
WHERE id = %(task_id)s AND coalesce(
    counted_at + make_interval(secs => 0.2 + least(100 * refresh_seconds, 600)) < now(), true)
FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_noted
SELECT id FROM search_index_task
WHERE id = %(task_id)s AND coalesce(moved_at < now() - interval '0.2 s', true)
  AND EXISTS (SELECT FROM search_index_task_delta WHERE task_id = %(task_id)s)
FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_all_noted
SELECT id FROM search_index_task
WHERE id = ANY (ARRAY (SELECT DISTINCT task_id FROM search_index_task_delta LIMIT %(limit)s))
FOR NO KEY UPDATE SKIP LOCKED

-- name: add_noted
-- adds the increments of workers to the counts of a locked task
WITH noted AS (
    DELETE FROM search_index_task_delta WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM search_index_task_delta WHERE task_id = ANY (%(task_ids)s) FOR UPDATE SKIP LOCKED)) RETURNING *
), c AS (
    SELECT task_id AS id, 1 AS kept, sum(total) AS total, sum(indexed) AS indexed, sum(skipped) AS skipped,
        sum(failed) AS failed, sum(removed) AS removed, sum(searchable) AS searchable, sum(chunks) AS chunks,
        sum(vectors) AS vectors, sum(embedded) AS embedded, sum(reused) AS reused, sum(tokens) AS tokens, sum(total_bytes) AS total_bytes, sum(done_bytes) AS done_bytes,
        sum(due) AS due,
        sum(text_left) AS text_left, sum(text_read) AS text_read, sum(text_ms) AS text_ms,
        sum(document_left) AS document_left, sum(document_read) AS document_read, sum(document_ms) AS document_ms,
        sum(image_left) AS image_left, sum(image_read) AS image_read, sum(image_ms) AS image_ms,
        sum(removing) AS removing, sum(worked_files) AS worked_files
    FROM noted GROUP BY task_id
)
UPDATE search_index_task t SET :set_counts, moved_at = now() FROM c WHERE t.id = c.id AND t.status = 'indexing'

-- name: distrust
-- the counts of open tasks that files belong to, after changes without an increment
UPDATE search_index_task SET counted_at = NULL
WHERE status IN :open AND paths IS NOT NULL
  AND index_id IN (SELECT index_id FROM search_index_file WHERE id = ANY (%(file_ids)s))

-- name: distrust_index
UPDATE search_index_task SET counted_at = NULL
WHERE id = (SELECT id FROM :newest_task)

-- name: all_due
-- Running tasks whose counts the sweep brings up to date. The longer nothing has changed, the longer the pause between
-- two counts. What takes long is left to the workers, which count after each batch.
SELECT id FROM search_index_task
WHERE id = ANY (ARRAY (
    SELECT d.id FROM (
        SELECT t.id, sum(t.refresh_seconds) OVER (ORDER BY t.counted_at NULLS FIRST, t.id) - t.refresh_seconds AS before
        FROM search_index_task t JOIN search_index i ON i.id = t.index_id AND i.epoch = t.epoch
        WHERE t.status = 'indexing' AND t.refresh_seconds < %(seconds)s
          AND coalesce(t.counted_at + make_interval(secs => greatest(
              0.2 + 100 * t.refresh_seconds,
              least(extract(epoch FROM t.counted_at - coalesce(t.moved_at, t.created_at)), 30))) < now(), true)
        ORDER BY t.counted_at NULLS FIRST, t.id LIMIT %(limit)s) d
    WHERE d.before < %(seconds)s))
FOR NO KEY UPDATE SKIP LOCKED

-- name: count
-- Counts the file rows into the tasks' rows. What workers noted is in these rows, too, but for what they read.
WITH noted AS (
    DELETE FROM search_index_task_delta WHERE task_id = ANY (%(task_ids)s) RETURNING *
), read AS (
    SELECT task_id, sum(text_read) AS text_read, sum(text_ms) AS text_ms, sum(document_read) AS document_read,
        sum(document_ms) AS document_ms, sum(image_read) AS image_read, sum(image_ms) AS image_ms
    FROM noted GROUP BY task_id
)
UPDATE search_index_task t
SET :set_counts,
    counted_at = now(),
    refresh_seconds = c.share * extract(epoch FROM clock_timestamp() - statement_timestamp()),
    moved_at = CASE
        WHEN (t.total_files, t.indexed_files, t.skipped_files, t.failed_files, t.removed_files, t.total_chunks, t.tokens,
              t.searchable_files, t.vector_chunks, t.vectors_due)
            IS DISTINCT FROM (c.total, c.indexed, c.skipped, c.failed, c.removed, c.chunks, c.tokens,
              c.searchable, c.vectors, c.due) THEN now()
        ELSE t.moved_at END
FROM (
    SELECT f.*, coalesce(r.text_read, 0) AS text_read, coalesce(r.text_ms, 0) AS text_ms,
        coalesce(r.document_read, 0) AS document_read, coalesce(r.document_ms, 0) AS document_ms,
        coalesce(r.image_read, 0) AS image_read, coalesce(r.image_ms, 0) AS image_ms
    FROM (
        SELECT k.id, 0 AS kept, count(*)::float8 / sum(count(*)) OVER () AS share, :file_counts
        FROM search_index_task k
        LEFT JOIN (SELECT 1 AS sign, f.* FROM search_index_file f) f ON f.index_id = k.index_id
        WHERE k.id = ANY (%(task_ids)s) GROUP BY k.id) f
    LEFT JOIN read r ON r.task_id = f.id
) c
WHERE t.id = c.id AND (t.status = 'indexing' OR t.leftover)

-- name: counts
SELECT coalesce(searchable_files, indexed_files) + :failed_with_words + CASE WHEN %(include_lost)s THEN (
           SELECT count(*) FROM search_index_file f
           WHERE f.index_id = %(index_id)s AND f.lost AND NOT :has_words AND f.live_chunks > 0) ELSE 0 END AS found_files,
       total_files, held_removals, coalesce(vector_chunks, total_chunks) AS vector_chunks, vectors_due,
       total_chunks, finished_at IS NULL AS is_open
FROM (SELECT * FROM :newest_task) t
