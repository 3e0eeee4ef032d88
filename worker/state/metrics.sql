-- name: tasks
SELECT status, count(*) FROM search_index_task WHERE status IN :open GROUP BY status

-- name: backlog
SELECT (SELECT count(*) FROM search_index_file f JOIN search_index_task o ON o.index_id = f.index_id
        WHERE o.status IN :open AND f.status IN :open),
       (SELECT count(*) FROM chunk_tombstone),
       coalesce(extract(epoch FROM now() - min(created_at)), 0),
       :sweep_age
FROM search_index_task WHERE status IN :open
