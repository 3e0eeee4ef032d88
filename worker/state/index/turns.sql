-- name: fairest
-- The next task to serve, of those with pending files that do not wait for a provider. The project with the fewest
-- active slices comes first; on a tie, the one served longest ago. Of its tasks, those with files that lack their words
-- come first, then the one with the fewest slices. The join keeps the order, and ends with the first such task. Locks
-- need not reach the disk.
WITH :slices_at_work
SELECT t.id, set_config('synchronous_commit', 'off', true) FROM (
    SELECT t.id, t.index_id, t.listing FROM search_index_task t
    JOIN search_index i ON i.id = t.index_id AND i.epoch = t.epoch AND i.deleted_at IS NULL
    LEFT JOIN at_work w ON w.index_id = i.id LEFT JOIN at_project p ON p.project_id = i.project_id
    LEFT JOIN project_turn r ON r.project_id = i.project_id AND r.work = 'index'
    WHERE t.status = 'indexing' AND coalesce(t.sent_at, now()) <= now()
      AND (NOT %(only_small)s OR :is_small) AND :is_in_reach AND NOT :is_declined
      AND (NOT %(only_words)s OR (:first_without_words) IS NOT NULL)
    ORDER BY coalesce(p.slices, 0), coalesce(r.number, 0), (:first_without_words) IS NULL, coalesce(w.slices, 0),
        t.id IS NOT DISTINCT FROM %(preferred)s::uuid DESC, t.started_at
    -- a worker that serves a locked one would only wait
    FOR SHARE OF t, i SKIP LOCKED
) t
CROSS JOIN LATERAL (:first_due) f
LIMIT 1

-- name: words_wait
-- whether files wait for their words, of tasks that the current worker may serve
SELECT EXISTS (
    SELECT FROM search_index_task t
    JOIN search_index i ON i.id = t.index_id AND i.epoch = t.epoch AND i.deleted_at IS NULL
    WHERE t.status = 'indexing' AND coalesce(t.sent_at, now()) <= now()
      AND (NOT %(only_small)s OR :is_small) AND :is_in_reach AND NOT :is_declined
      AND (:first_without_words) IS NOT NULL)

-- name: listings
-- Tasks whose folder waits to be listed, in the order of their turns. The project with the fewest active listings comes
-- first; on a tie, the one served longest ago. A message may arrive shortly before the time recorded for it.
WITH at_work AS MATERIALIZED (
    SELECT i.project_id, count(*) AS listings FROM search_index_task t JOIN search_index i ON i.id = t.index_id
    WHERE t.status IN :open AND t.listing AND t.plan_until > now() GROUP BY i.project_id
)
SELECT t.id FROM search_index_task t
JOIN search_index i ON i.id = t.index_id AND i.deleted_at IS NULL
LEFT JOIN at_work w ON w.project_id = i.project_id
LEFT JOIN project_turn r ON r.project_id = i.project_id AND r.work = 'listing'
WHERE t.status IN :open AND t.listing AND (t.plan_until IS NULL OR t.plan_until < now())
  AND (coalesce(t.sent_at, now()) <= now() OR t.id = %(preferred)s) AND :is_in_reach AND NOT :is_declined
ORDER BY coalesce(w.listings, 0), coalesce(r.number, 0), t.id = %(preferred)s DESC, t.created_at LIMIT %(limit)s
FOR SHARE OF t, i SKIP LOCKED

-- name: is_in_reach
SELECT NOT EXISTS (SELECT FROM search_index_task t JOIN search_index i ON i.id = t.index_id
                   WHERE t.id = %(task_id)s AND NOT (:is_in_reach))

-- name: take
-- A row that another worker is writing is about to get an equally high number. No worker waits for the disk.
WITH taken AS (
    UPDATE project_turn SET number = nextval('project_turn_number_seq')
    WHERE (project_id, work) IN (
        SELECT project_id, work FROM project_turn WHERE project_id = %(project_id)s AND work = %(work)s
        FOR NO KEY UPDATE SKIP LOCKED)
), first AS (
    INSERT INTO project_turn (project_id, work) VALUES (%(project_id)s, %(work)s) ON CONFLICT DO NOTHING
)
SELECT set_config('synchronous_commit', 'off', true)
