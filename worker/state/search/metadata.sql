-- Metadata of the files of an index.

-- name: state
SELECT coalesce((SELECT m.version FROM metadata_change m WHERE m.project_id = i.project_id), 0) AS version,
       t.id AS task_id, t.finished_at
FROM search_index i LEFT JOIN LATERAL (SELECT * FROM :newest_task) t ON true WHERE i.id = %(index_id)s

-- name: files_by_values
SELECT v.values, p.path, coalesce(array_agg(f.id) FILTER (WHERE f.status <> 'removed'), '{}') AS files,
       coalesce(array_agg(coalesce(f.node_id, f.id::text)) FILTER (WHERE f.live_chunks > 0), '{}') AS node_ids
FROM search_index i JOIN search_index_file f ON f.index_id = i.id
LEFT JOIN content_node n ON n.project_id = i.project_id AND n.id = f.node_id
CROSS JOIN LATERAL (
    -- the values of some keys in the metadata of a file f with a node n, as an array; a file's own value is in an
    -- object
    SELECT coalesce(jsonb_agg(coalesce(n.all_metadata -> k.key, CASE WHEN m.stated -> k.key IS NOT NULL THEN
               jsonb_build_object('stated', m.stated -> k.key) END) ORDER BY k.place), '[]') AS values
    FROM (SELECT CASE WHEN cardinality(%(sources)s::text[]) > 0 THEN :stated_metadata END AS stated) m
    CROSS JOIN unnest(%(keys)s::text[]) WITH ORDINALITY AS k (key, place)
) v CROSS JOIN LATERAL (SELECT CASE WHEN %(by_path)s THEN f.path END AS path) p
WHERE i.id = %(index_id)s AND (f.status <> 'removed' OR f.live_chunks > 0)
  AND :is_selected GROUP BY v.values, p.path

-- name: stated
SELECT f.id, :stated_metadata FROM search_index_file f WHERE f.id = ANY (%(files)s)

-- name: paths
SELECT path FROM search_index_file WHERE index_id = %(index_id)s AND status <> 'removed'
