-- name: any_open
-- each check reads an index that has only open rows
SELECT EXISTS (SELECT FROM search_index_task WHERE status IN :open)
    OR EXISTS (SELECT FROM file_lease)
    OR EXISTS (SELECT FROM search_index_change WHERE due_at <= now() + %(ahead)s)
    OR EXISTS (SELECT FROM search_tool WHERE next_run_at <= now() + %(ahead)s)
    OR EXISTS (SELECT FROM summary_tree WHERE status IN :open)

-- name: is_sweep_late
-- sweeps are rare without open work, so a task that has just begun does not make the last sweep late
SELECT coalesce((SELECT ran_at FROM upkeep WHERE name = 'sweep') < now() - %(after)s, true)
   AND EXISTS (SELECT FROM search_index_task WHERE status IN :open AND created_at < now() - %(after)s)

-- name: is_swept
SELECT EXISTS (SELECT FROM upkeep WHERE name = 'sweep' AND ran_at BETWEEN now() - %(within)s AND now())

-- name: sweep_age
SELECT :sweep_age

-- name: swept
-- a locked row is skipped
WITH free AS (SELECT FROM upkeep WHERE name = 'sweep' FOR NO KEY UPDATE SKIP LOCKED)
INSERT INTO upkeep (name, ran_at)
SELECT 'sweep', now() WHERE EXISTS (SELECT FROM free) OR NOT EXISTS (SELECT FROM upkeep WHERE name = 'sweep')
ON CONFLICT (name) DO UPDATE SET ran_at = now()
