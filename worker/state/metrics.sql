-- name: tasks
SELECT status, count(*) FROM search_index_task WHERE status IN ('pending', 'indexing') GROUP BY status

-- name: backlog
SELECT coalesce(sum(total_files - indexed_files - skipped_files - failed_files), 0),
       (SELECT count(*) FROM chunk_tombstone),
       coalesce(extract(epoch FROM now() - min(created_at)), 0)
FROM search_index_task WHERE status IN ('pending', 'indexing')
