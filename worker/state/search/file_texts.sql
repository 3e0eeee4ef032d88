-- name: stored
-- files with text, folder by folder; of a local source only those whose text differs from the file's bytes
SELECT id, node_id, key, path, id_path, type, size_bytes, mtime_ms FROM search_index_file
WHERE index_id = %(index_id)s AND live_chunks > 0 AND status <> 'removed'
  AND (%(excluded_types)s::text[] IS NULL OR NOT type = ANY (%(excluded_types)s))
  AND (%(below)s::text IS NULL OR path = %(below)s OR starts_with(path, %(below)s || '/'))
ORDER BY replace(path, '/', E'\x01') COLLATE "C", id_path

-- name: listed_files
SELECT id, type, stamp, status, live_chunks > 0 AS has_text,
       status IN ('pending', 'indexing', 'failed') AND work = 'read' AND NOT awaits_vectors AS is_behind
FROM search_index_file
WHERE id = ANY (%(ids)s) AND status <> 'removed'

-- name: unfinished
-- a page of unfinished files, by path, after a path and id
SELECT key, path, id_path, node_id, size_bytes, mtime_ms, id, type, stamp, status, live_chunks > 0 AS has_text,
       work = 'read' AS is_behind
FROM search_index_file
WHERE index_id = %(index_id)s AND status IN ('pending', 'indexing', 'failed') AND work <> 'remove' AND NOT awaits_vectors
  AND (%(below)s::text IS NULL OR path = %(below)s OR starts_with(path, %(below)s || '/'))
  AND (path, id) > (%(after_path)s, %(after_id)s)
ORDER BY path, id LIMIT %(limit)s

-- name: is_listed
-- whether the newest task has listed the whole folder
SELECT coalesce(bool_and(NOT listing), false) FROM (SELECT listing FROM :newest_task) t

-- name: waiting
-- Whether the newest task is open and lists the folder, whether it is the first one, and whether it will read files
-- without live text. Its first files are examined, in the order of an index.
SELECT finished_at IS NULL AND listing, kind = 'create', finished_at IS NULL AND (
    EXISTS (SELECT FROM (
        SELECT work, live_chunks FROM search_index_file f
        WHERE index_id = %(index_id)s AND status = 'pending' AND :is_selected
        ORDER BY size_bytes, id LIMIT %(most)s) f WHERE f.work <> 'remove' AND f.live_chunks = 0)
    OR EXISTS (SELECT FROM search_index_file f
               WHERE index_id = %(index_id)s AND status = 'indexing' AND work <> 'remove' AND live_chunks = 0
                 AND :is_selected))
FROM (SELECT * FROM :newest_task) t
