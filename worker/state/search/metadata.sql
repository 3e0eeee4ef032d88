-- Metadata of the files of an index.

-- name: state
SELECT coalesce((SELECT m.version FROM metadata_change m WHERE m.project_id = i.project_id), 0) AS version,
       t.id AS task_id, t.finished_at
FROM search_index i LEFT JOIN LATERAL (SELECT * FROM :newest_task) t ON true WHERE i.id = %(index_id)s

-- name: files_by_values
SELECT v.values, p.path, coalesce(array_agg(f.id) FILTER (WHERE f.status <> 'removed'), '{}') AS files,
       coalesce(array_agg(coalesce(f.node_id, f.id::text)) FILTER (WHERE f.live_chunks > 0), '{}') AS node_ids
FROM :files_with_metadata
CROSS JOIN LATERAL (:values_of_keys) v CROSS JOIN LATERAL (SELECT CASE WHEN %(by_path)s THEN f.path END AS path) p
WHERE i.id = %(index_id)s AND (f.status <> 'removed' OR f.live_chunks > 0) GROUP BY v.values, p.path

-- name: stated
SELECT f.id, :stated_metadata FROM search_index_file f WHERE f.id = ANY (%(files)s)
