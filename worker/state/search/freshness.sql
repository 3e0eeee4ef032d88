-- Measures how far an index's rows lag behind its folder.

-- name: compare
-- A file whose stamp was not trusted when it was read is compared by size and time, or it would never be fresh. But a
-- task that ended early may not have read it at all. Of files without a row only the wanted ones are missing.
SELECT count(*) FILTER (WHERE changed) AS unseen,
       count(*) FILTER (WHERE NOT changed AND status IN :open AND NOT awaits_vectors) AS open, count(id) AS known
FROM (
    SELECT f.id, f.status, f.awaits_vectors, CASE
        WHEN f.id IS NULL THEN c.wanted
        WHEN (f.path, f.id_path) IS DISTINCT FROM (c.path, c.id_path) THEN true
        WHEN f.stamp = '' THEN (f.size_bytes, f.mtime_ms) IS DISTINCT FROM (c.size_bytes, c.mtime_ms)
            OR f.status = 'indexed' AND EXISTS (
                SELECT FROM search_index_task t WHERE t.id = f.task_id AND t.status IN ('cancelled', 'error'))
        ELSE f.stamp <> c.stamp END AS changed
    FROM unnest(%(ids)s::uuid[], %(wanted)s::bool[], %(paths)s::text[], %(id_paths)s::text[], %(sizes)s::bigint[],
                %(stamps)s::text[], %(mtimes)s::bigint[]) AS c (file_id, wanted, path, id_path, size_bytes, stamp, mtime_ms)
    LEFT JOIN :file_by_id ON f.status <> 'removed'
) AS compared

-- name: known
-- without files below directories that cannot be listed at the moment
SELECT count(*) AS known, count(*) FILTER (WHERE work = 'remove' AND status IN :open) AS going
FROM search_index_file f
WHERE index_id = %(index_id)s AND status <> 'removed'
  AND NOT EXISTS (SELECT FROM unnest(%(unlisted)s::bytea[]) AS u (prefix) WHERE :has_prefix)
