-- name: tasks
SELECT status, count(*) FROM search_index_task WHERE status IN ('pending', 'indexing') GROUP BY status

-- name: backlog
SELECT (SELECT count(*) FROM search_index_file f JOIN search_index_task o ON o.index_id = f.index_id
        WHERE o.status IN ('pending', 'indexing') AND f.status IN ('pending', 'indexing')),
       (SELECT count(*) FROM chunk_tombstone),
       coalesce(extract(epoch FROM now() - min(created_at)), 0)
FROM search_index_task WHERE status IN ('pending', 'indexing')
