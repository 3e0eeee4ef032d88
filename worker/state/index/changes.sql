-- Indexes with automatic runs.

-- name: nodes_changed
-- delayed until a quiet period, but not forever; indexes whose folder contains, or lies below, an edited node
INSERT INTO search_index_change AS c (index_id, since, due_at, paths)
SELECT i.id, statement_timestamp(), statement_timestamp() + %(quiet)s, (:edited_nodes)
FROM search_index i
JOIN content_node root ON root.project_id = i.project_id AND root.id = i.source ->> 'node_id'
CROSS JOIN LATERAL (SELECT FROM unnest(%(id_paths)s::text[]) AS e (path) WHERE :touches_root LIMIT 1) touched
WHERE i.project_id = %(project_id)s AND i.source ->> 'kind' = 'nodes' AND i.deleted_at IS NULL
  AND EXISTS (SELECT FROM search_tool s
              WHERE i.id IN (s.index_id, s.next_index_id) AND (:config_over) ->> 'auto_reindex' = 'true')
ORDER BY i.id
ON CONFLICT (index_id) DO UPDATE
SET since = :waits_since, due_at = least(excluded.due_at, :waits_since + %(patience)s),
    paths = :noted_paths

-- name: following_now
-- a tool that starts to follow edits takes up earlier ones
INSERT INTO search_index_change AS c (index_id, since, due_at)
SELECT index_id, now(), now() FROM search_tool
WHERE id = %(tool_id)s AND config ->> 'auto_reindex' IS DISTINCT FROM 'true'
ON CONFLICT (index_id) DO UPDATE
SET since = coalesce(c.since, now()), due_at = least(c.due_at, now()), paths = NULL

-- name: changed
-- like nodes_changed, and not before the rest period after the last run is over, unless that found no folder to list
INSERT INTO search_index_change AS c (index_id, since, due_at, paths)
SELECT id, now(), now() + %(quiet)s, %(paths)s::text[]
FROM search_index WHERE id = %(index_id)s AND deleted_at IS NULL
ON CONFLICT (index_id) DO UPDATE
SET since = :waits_since, paths = :noted_paths,
    due_at = greatest(least(excluded.due_at, :waits_since + %(patience)s),
                      CASE WHEN :noted_paths IS NOT NULL THEN c.ran_at + %(rest)s
                           WHEN (SELECT error_code FROM :newest_task) IS DISTINCT FROM 'folder_gone' THEN c.rest_until
                      END)
RETURNING extract(epoch FROM due_at - now())::float8

-- name: hurry
SELECT :hurry

-- name: watched
SELECT DISTINCT i.id, i.project_id, i.source, i.settings
FROM search_tool s JOIN search_index i ON i.id = s.index_id
WHERE s.config ->> 'watch' = 'true'

-- name: look_at_nodes
-- every write gives a row a new xmin, greater than all before, so count and sum reveal any change
INSERT INTO search_index_change AS c (index_id, since, due_at, seen)
SELECT i.id, now(), now() + %(quiet)s, (
    SELECT concat_ws(' ', count(*), sum(n.xmin::text::bigint))
    FROM content_node root JOIN content_node n ON n.project_id = root.project_id
    WHERE root.project_id = i.project_id AND root.id = i.source ->> 'node_id'
      AND n.id_path >= root.id_path AND n.id_path < root.id_path || '0'
      AND (n.id_path = root.id_path OR starts_with(n.id_path, root.id_path || '/')))
FROM search_index i WHERE i.id = %(index_id)s AND i.deleted_at IS NULL
ON CONFLICT (index_id) DO UPDATE
SET seen = excluded.seen, since = coalesce(c.since, now()), paths = NULL,
    due_at = least(c.due_at, greatest(excluded.due_at, c.rest_until))
WHERE c.seen IS DISTINCT FROM excluded.seen

-- name: schedule
-- an open run suffices, if it lists the whole folder
WITH due AS (
    SELECT s.id FROM search_tool s JOIN search_index i ON i.id = s.index_id
    LEFT JOIN search_index_change c ON c.index_id = i.id
    WHERE s.next_run_at <= now() AND (c.index_id IS NULL OR EXISTS (
        -- that of another tool waits as long as its row is locked
        SELECT FROM search_index_change f WHERE f.index_id = c.index_id FOR UPDATE SKIP LOCKED))
    ORDER BY s.next_run_at LIMIT %(limit)s FOR NO KEY UPDATE OF s SKIP LOCKED FOR KEY SHARE OF i SKIP LOCKED
), moved AS (
    UPDATE search_tool s SET next_run_at = now() + make_interval(secs => (config ->> 'every')::float8)
    FROM due WHERE s.id = due.id
    RETURNING s.index_id, s.config ? 'every' AS wanted
)
INSERT INTO search_index_change AS c (index_id, since, due_at)
SELECT DISTINCT m.index_id, now(), now() FROM moved m
WHERE m.wanted AND NOT EXISTS (
    SELECT FROM search_index_task t WHERE t.index_id = m.index_id AND t.status IN :open AND t.paths IS NULL)
ORDER BY m.index_id
ON CONFLICT (index_id) DO UPDATE SET since = coalesce(c.since, now()), due_at = least(c.due_at, now()), paths = NULL

-- name: due
SELECT index_id FROM search_index_change WHERE due_at <= now() ORDER BY due_at LIMIT %(limit)s

-- name: postpone
-- skips a locked row: the transaction that locks it may be the reason
UPDATE search_index_change SET due_at = now() + %(pause)s WHERE index_id IN (
    SELECT index_id FROM search_index_change WHERE index_id = %(index_id)s AND due_at <= now() FOR UPDATE SKIP LOCKED)

-- name: noted
-- the paths to list; null: the whole folder
SELECT paths FROM search_index_change
WHERE index_id = %(index_id)s AND due_at <= now() FOR NO KEY UPDATE SKIP LOCKED

-- name: take
-- the first run covers changes from before watching; no watch needs to rest after it
UPDATE search_index_change
SET since = NULL, due_at = NULL, paths = NULL, ran_at = now(),
    rest_until = CASE WHEN %(paths)s::text[] IS NOT NULL THEN rest_until WHEN ran_at IS NOT NULL THEN now() + %(rest)s END
WHERE index_id = %(index_id)s

-- name: owner
-- the oldest of the tools that follow the folder
SELECT s.id, i.folder_node_id
FROM search_index i JOIN search_tool s ON i.id IN (s.index_id, s.next_index_id)
CROSS JOIN LATERAL (SELECT :config_over AS config) c
WHERE i.id = %(index_id)s AND i.deleted_at IS NULL
  AND (c.config ->> 'auto_reindex' = 'true' OR c.config ->> 'watch' = 'true' OR c.config ? 'every')
ORDER BY s.created_at, s.id LIMIT 1

-- name: join
-- A task that has not begun takes up the change, too. Its row is always written, so that it begins after this commits.
UPDATE search_index_task t
SET rerun = rerun OR status = 'indexing',
    paths = CASE WHEN status = 'indexing' THEN paths
                 ELSE joined_paths(t.paths, %(paths)s::text[], %(most_paths)s) END,
    rerun_paths = CASE WHEN status = 'indexing' THEN :rerun_paths_with_more ELSE rerun_paths END,
    rerun_tool_ids = CASE WHEN status = 'indexing' THEN :rerun_tool_ids_with_more ELSE rerun_tool_ids END
WHERE index_id = %(index_id)s AND status IN :open

-- name: let_be
-- Starts no run for the changes so far. No run covers them either, so the next run that a change starts lists
-- everything.
INSERT INTO search_index_change AS c (index_id, since)
SELECT %(index_id)s, now() WHERE %(stopped)s
    OR EXISTS (SELECT FROM search_index_change WHERE index_id = %(index_id)s AND due_at IS NOT NULL)
ON CONFLICT (index_id) DO UPDATE SET since = coalesce(c.since, now()), due_at = NULL, paths = NULL
