-- name: lock_project
-- transactions of a project that change tools' indexes, end a task or edit nodes run one after another
SELECT pg_advisory_xact_lock(hashtextextended(%(project_id)s, 0)), :hurry

-- name: lock_project_of_index
SELECT pg_advisory_xact_lock(hashtextextended(project_id, 0)), :hurry FROM search_index WHERE id = %(index_id)s

-- name: try_lock_project_of_index
SELECT pg_try_advisory_xact_lock(hashtextextended(project_id, 0)), :hurry FROM search_index WHERE id = %(index_id)s

-- name: lock_project_of_tool
SELECT pg_advisory_xact_lock(hashtextextended(project_id, 0)), :hurry FROM search_tool WHERE id = %(tool_id)s

-- name: lock_indexes
-- every transaction locks an index before its tasks; with NO KEY, a listing that holds its task can still add files
SELECT FROM search_index WHERE id = ANY (%(index_ids)s) ORDER BY id FOR NO KEY UPDATE

-- name: try_lock_index
SELECT FROM search_index WHERE id = %(index_id)s FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_tool
-- includes the tool's row, which a due schedule locks before it notes a change of the index
SELECT s.id, s.project_id, s.index_id, i.identity, i.folder_node_id, s.next_index_id, n.identity AS next_identity,
       coalesce(s.next_config, s.config) AS wanted_config,
       coalesce(s.config -> 'metadata_from' ? 'sidecars', false) AS has_sidecars, EXISTS (
           SELECT FROM search_index_task t WHERE t.id = i.stopping AND t.status IN :open) AS is_stopping
FROM search_tool s JOIN search_index i ON i.id = s.index_id LEFT JOIN search_index n ON n.id = s.next_index_id
WHERE s.id = %(tool_id)s FOR NO KEY UPDATE OF s

-- name: lock_stopped
-- the index of a tool, and the one that is being built for it, unless another tool waits for that
SELECT i.id FROM search_tool s JOIN search_index i ON i.id = s.index_id OR i.id = s.next_index_id AND NOT EXISTS (
    SELECT FROM search_tool o WHERE o.id <> s.id AND s.next_index_id IN (o.index_id, o.next_index_id))
WHERE s.id = %(tool_id)s ORDER BY i.id FOR NO KEY UPDATE OF i

-- name: shut_out
-- From now on nothing is recorded that workers still do for these indexes. Notes which tasks are to end.
UPDATE search_index i SET epoch = i.epoch + 1, stopping = t.id
FROM search_index_task t
WHERE i.id = ANY (%(index_ids)s) AND t.index_id = i.id AND t.status IN :open AND t.id = coalesce(%(only)s, t.id)

-- name: stopping
-- open tasks whose work was stopped while another transaction held their rows
SELECT t.id, t.index_id FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.status IN :open AND (i.stopping = t.id OR i.deleted_at IS NOT NULL) ORDER BY random() LIMIT %(limit)s

-- name: bury_index
-- the raised epoch shuts out every worker that still writes
UPDATE search_index i
SET deleted_at = now() + %(linger)s,
    -- unless a cancel did so before
    epoch = epoch + CASE WHEN EXISTS (SELECT FROM search_index_task t WHERE t.id = i.stopping AND t.status IN :open)
                         THEN 0 ELSE 1 END
WHERE i.id = %(index_id)s AND i.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM search_tool s WHERE s.index_id = i.id OR s.next_index_id = i.id)

-- name: cancel_buried
WITH noted AS (
    DELETE FROM search_index_task_delta WHERE ctid = ANY (ARRAY (
        SELECT d.ctid FROM search_index_task_delta d JOIN search_index_task t ON t.id = d.task_id
        WHERE t.index_id = %(index_id)s FOR UPDATE OF d SKIP LOCKED))
)
UPDATE search_index_task SET status = 'cancelled', finished_at = now(), plan_owner = NULL, plan_until = NULL
WHERE id = ANY (ARRAY (
    -- the sweep ends a locked one
    SELECT id FROM search_index_task WHERE index_id = %(index_id)s AND status IN :open FOR NO KEY UPDATE SKIP LOCKED))

-- name: begin_update
UPDATE search_tool SET next_index_id = %(index_id)s, next_config = %(config)s, update_error = NULL, updated_at = now()
WHERE id = %(tool_id)s

-- name: begin_updates
-- of all tools of an index that no other change is under way for
UPDATE search_tool
SET next_index_id = %(next_index_id)s, next_config = config, update_error = NULL, updated_at = now()
WHERE index_id = %(index_id)s AND next_index_id IS NULL

-- name: end_update
UPDATE search_tool SET next_index_id = NULL, next_config = NULL, update_error = %(error)s, updated_at = now()
WHERE id = %(tool_id)s

-- name: end_updates
UPDATE search_tool SET next_index_id = NULL, next_config = NULL, update_error = %(error)s, updated_at = now()
WHERE next_index_id = %(index_id)s

-- name: switch_tools
-- returns the indexes that the tools left
WITH waiting AS (
    SELECT id, index_id FROM search_tool WHERE next_index_id = %(index_id)s
), switched AS (
    UPDATE search_tool SET index_id = next_index_id, config = next_config, next_index_id = NULL, next_config = NULL,
           next_run_at = now() + make_interval(secs => (next_config ->> 'every')::float8),
           update_error = NULL, updated_at = now()
    WHERE next_index_id = %(index_id)s
)
SELECT DISTINCT index_id FROM waiting
