-- name: sent
UPDATE search_index_task SET sent_at = now() + %(delay)s
WHERE id = (SELECT id FROM search_index_task WHERE id = %(task_id)s FOR NO KEY UPDATE SKIP LOCKED)

-- name: pass_over
-- If its index or all its files are locked, the sweep notices when they are free. Other locks leave no trace.
WITH found AS (
    SELECT t.id, NOT EXISTS (SELECT FROM search_index i WHERE i.id = t.index_id FOR NO KEY UPDATE SKIP LOCKED)
        OR :files_are_held AS held
    FROM search_index_task t WHERE t.id = %(task_id)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE search_index_task t
SET held = f.held, sent_at = now() + CASE WHEN f.held THEN %(later)s ELSE %(soon)s END,
    warning = CASE WHEN t.held_removals = 0 THEN %(warning)s ELSE t.warning END
FROM found f WHERE t.id = f.id

-- name: leave
-- A task without an active worker waits for one that sees its directories.
UPDATE search_index_task t SET warning = %(warning)s
FROM search_index i
WHERE t.id = (SELECT id FROM search_index_task WHERE id = %(task_id)s FOR NO KEY UPDATE SKIP LOCKED)
  AND i.id = t.index_id AND t.status IN :open AND t.held_removals = 0 AND NOT (:is_in_reach)
  AND (t.plan_until IS NULL OR t.plan_until < now()) AND NOT EXISTS (SELECT FROM file_lease l WHERE l.index_id = i.id)

-- name: take_up_freed
-- tasks that were passed over for locks that are gone
UPDATE search_index_task
SET held = false, sent_at = NULL, warning = CASE WHEN warning <> %(warning)s THEN warning END
WHERE id = ANY (ARRAY (
    SELECT t.id FROM search_index_task t JOIN search_index i ON i.id = t.index_id
    WHERE t.status IN :open AND t.held AND NOT (:files_are_held)
    FOR NO KEY UPDATE OF t, i SKIP LOCKED))

-- name: unplanned
-- pending or half-listed tasks without a worker, whose message may be lost
SELECT t.id, t.tool_id FROM search_index_task t
WHERE t.status IN :open AND t.listing AND (t.plan_until IS NULL OR t.plan_until < now())
  AND coalesce(t.sent_at, t.created_at) < now() - %(patience)s
ORDER BY coalesce(t.sent_at, t.created_at) LIMIT %(limit)s

-- name: waiting
-- Running tasks with files that wait for a worker, and no message on its way, in the order of fairness. More slices
-- than `most_slices` may work on a task with many files left.
WITH :slices_at_work
SELECT t.id, t.slices, t.most, t.is_small FROM (
    SELECT t.id, t.index_id, t.listing, :is_small AS is_small,
        coalesce(w.slices, 0) AS slices, greatest(%(most_slices)s, (
        t.total_files - t.indexed_files - t.skipped_files - t.failed_files) / %(files_per_slice)s) AS most
    FROM search_index_task t JOIN search_index i ON i.id = t.index_id AND i.epoch = t.epoch
    LEFT JOIN at_work w ON w.index_id = i.id LEFT JOIN at_project p ON p.project_id = i.project_id
    WHERE t.status = 'indexing' AND coalesce(t.sent_at, t.created_at) < now() - %(patience)s
    ORDER BY coalesce(p.slices, 0), coalesce(w.slices, 0), random()
) t
CROSS JOIN LATERAL (:first_due) f
WHERE t.slices < t.most
LIMIT %(limit)s

-- name: slices
-- slices at work, on all tasks
WITH :slices_at_work
SELECT coalesce(sum(slices), 0)::bigint FROM at_work
