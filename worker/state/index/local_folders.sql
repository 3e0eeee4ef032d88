-- name: seen
-- for longer than the registry of hosts keeps it
INSERT INTO folder_host (host_id) VALUES (%(host_id)s) ON CONFLICT (host_id) DO UPDATE SET seen_at = now()

-- name: forget_hosts
DELETE FROM folder_host WHERE seen_at < now() - %(kept)s

-- name: find
-- the last listing of the index, or of another one over the same path
SELECT f.index_id, f.host_id, f.host_name, f.inode, f.place, f.changed_ns,
    EXISTS (SELECT FROM host_process p WHERE p.host_id = f.host_id AND p.role = 'worker' AND :is_alive) AS is_running,
    EXISTS (SELECT FROM folder_host h WHERE h.host_id = f.host_id AND h.seen_at > now() - %(unseen)s) AS is_known
FROM indexed_folder f
WHERE f.index_id = %(index_id)s OR f.path = %(path)s
ORDER BY f.index_id = %(index_id)s DESC, f.listed_at DESC LIMIT 1

-- name: sample
SELECT key, stamp FROM search_index_file WHERE index_id = %(index_id)s AND stamp <> '' LIMIT %(limit)s

-- name: listed
-- no listing waits for the disk
WITH noted AS (
    INSERT INTO indexed_folder AS f (index_id, path, host_id, host_name, inode, place, changed_ns)
    VALUES (%(index_id)s, %(path)s, %(host_id)s, %(host_name)s, %(inode)s, %(place)s, %(changed_ns)s)
    ON CONFLICT (index_id) DO UPDATE SET path = excluded.path, host_id = excluded.host_id,
        host_name = excluded.host_name, inode = excluded.inode, place = excluded.place,
        changed_ns = excluded.changed_ns, listed_at = now()
    WHERE (f.path, f.host_id, f.inode, f.place, f.changed_ns) IS DISTINCT FROM
        (excluded.path, excluded.host_id, excluded.inode, excluded.place, excluded.changed_ns)
)
SELECT set_config('synchronous_commit', 'off', true)

-- name: refuse
INSERT INTO folder_refusal (index_id, host_id, host_name) VALUES (%(index_id)s, %(host_id)s, %(host_name)s)
ON CONFLICT (index_id, host_id) DO UPDATE SET refused_at = now(), host_name = excluded.host_name

-- name: others
-- other machines whose workers take messages of such a queue, and that have not refused the folder recently
SELECT FROM host_process p
WHERE p.role = 'worker' AND p.queues && %(queues)s::text[] AND :is_alive AND p.host_id <> %(host_id)s AND NOT EXISTS (
    SELECT FROM folder_refusal r
    WHERE r.index_id = %(index_id)s AND r.host_id = p.host_id AND r.refused_at > now() - %(refused)s)
LIMIT 1

-- name: end
-- the machines that looked in vain; the next task asks all machines again
DELETE FROM folder_refusal WHERE index_id = %(index_id)s RETURNING host_name

-- name: release
-- a task that is left to other machines is due at once
UPDATE search_index_task SET sent_at = NULL, warning = CASE WHEN held_removals = 0 THEN %(warning)s ELSE warning END
WHERE id = (SELECT id FROM search_index_task WHERE id = %(task_id)s AND status IN :open FOR NO KEY UPDATE SKIP LOCKED)
