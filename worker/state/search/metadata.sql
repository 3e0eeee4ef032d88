-- Metadata of the files of an index.

-- name: state
SELECT coalesce((SELECT m.version FROM metadata_change m WHERE m.project_id = i.project_id), 0) AS version,
       t.id AS task_id, t.finished_at
FROM search_index i LEFT JOIN LATERAL (SELECT * FROM :newest_task) t ON true WHERE i.id = %(index_id)s

-- name: files_by_values
SELECT v.values, array_agg(f.id) FROM :files_with_metadata
CROSS JOIN LATERAL (:values_of_keys) v
WHERE i.id = %(index_id)s AND f.status <> 'removed' GROUP BY v.values

-- name: counted
-- For each declared key, in its order: how many files have a value of its type, how many another one, and the most frequent
-- values, each with its number of files. Only so many files are counted.
WITH files AS MATERIALIZED (
    SELECT n.all_metadata FROM :files_with_metadata
    WHERE i.id = %(index_id)s AND f.status <> 'removed' AND n.all_metadata ?| %(keys)s::text[] LIMIT %(most_files)s
), held AS MATERIALIZED (
    SELECT k.key, k.place, v.value, coalesce(CASE k.kind
        WHEN 'string' THEN t.type = 'string'
        WHEN 'float' THEN t.type = 'number'
        WHEN 'int' THEN CASE WHEN t.type = 'number' THEN trunc(v.value::numeric) = v.value::numeric END
        WHEN 'bool' THEN t.type = 'boolean'
        WHEN 'time' THEN t.type = 'string' AND v.value #>> '{}' ~ %(time)s
        WHEN 'strings' THEN t.type = 'array' END, false) AS is_typed, t.type
    FROM files f CROSS JOIN unnest(%(keys)s::text[], %(kinds)s::text[]) WITH ORDINALITY AS k (key, kind, place)
    CROSS JOIN LATERAL (SELECT f.all_metadata -> k.key AS value) v
    CROSS JOIN LATERAL (SELECT jsonb_typeof(v.value) AS type) t
    WHERE v.value IS NOT NULL
), frequent AS (
    SELECT h.key, e.value, count(*) AS files,
        row_number() OVER (PARTITION BY h.key ORDER BY count(*) DESC, e.value) AS place
    FROM held h CROSS JOIN LATERAL (
        SELECT h.value WHERE h.type <> 'array'
        UNION ALL
        SELECT DISTINCT a.value FROM jsonb_array_elements(CASE WHEN h.type = 'array' THEN h.value ELSE '[]' END) AS a (value)) e
    WHERE h.is_typed GROUP BY h.key, e.value
)
SELECT h.key, count(*) FILTER (WHERE h.is_typed), count(*) FILTER (WHERE NOT h.is_typed), (
    SELECT coalesce(jsonb_agg(jsonb_build_array(q.value, q.files) ORDER BY q.place), '[]') FROM frequent q
    WHERE q.key = h.key AND q.place <= %(most_values)s)
FROM held h GROUP BY h.key

-- name: is_counted_whole
SELECT count(*) <= %(most_files)s FROM (
    SELECT FROM :files_with_metadata WHERE i.id = %(index_id)s AND f.status <> 'removed' AND n.all_metadata ?| %(keys)s::text[]
    LIMIT %(most_files)s + 1) c

-- name: nodes_by_values
SELECT v.values, array_agg(coalesce(f.node_id, f.id::text)) FROM :files_with_metadata
CROSS JOIN LATERAL (:values_of_keys) v
WHERE i.id = %(index_id)s AND f.live_chunks > 0 GROUP BY v.values
