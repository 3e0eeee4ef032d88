-- name: insert_index
INSERT INTO search_index (id, project_id, identity, source, folder_node_id, settings, vector_store, keyword_index, namespace)
VALUES (%(id)s, %(project_id)s, %(identity)s, %(source)s, %(folder_node_id)s, %(settings)s, %(vector_store)s,
        %(keyword_index)s, %(namespace)s)
ON CONFLICT DO NOTHING

-- name: lock_index
-- everybody locks an index before its tasks; NO KEY lets a listing that holds its task add files meanwhile
SELECT id FROM search_index WHERE project_id = %(project_id)s AND identity = %(identity)s AND deleted_at IS NULL
FOR NO KEY UPDATE

-- name: insert_tool
INSERT INTO search_tool (id, project_id, name, index_id, node_id, source, config)
VALUES (%(id)s, %(project_id)s, %(name)s, %(index_id)s, %(node_id)s, %(source)s, %(config)s)

-- name: tool
SELECT s.id AS tool_id, s.project_id, s.name, s.node_id, s.source, s.config, s.created_at, s.updated_at, s.index_id,
       i.namespace, i.settings -> 'embedder' ->> 'model' AS model,
       (i.settings -> 'embedder' ->> 'dimensions')::int AS dimensions, t.status AS task
FROM search_tool s
JOIN search_index i ON i.id = s.index_id
CROSS JOIN LATERAL (
    SELECT status FROM search_index_task WHERE index_id = s.index_id ORDER BY created_at DESC, id DESC LIMIT 1) t
WHERE s.id = %(tool_id)s

-- name: tools
SELECT s.id AS tool_id, s.project_id, s.name, s.node_id, s.source, s.config, s.created_at, s.updated_at, s.index_id,
       i.namespace, i.settings -> 'embedder' ->> 'model' AS model,
       (i.settings -> 'embedder' ->> 'dimensions')::int AS dimensions, t.status AS task
FROM search_tool s
JOIN search_index i ON i.id = s.index_id
CROSS JOIN LATERAL (
    SELECT status FROM search_index_task WHERE index_id = s.index_id ORDER BY created_at DESC, id DESC LIMIT 1) t
WHERE (%(project_id)s::text IS NULL OR s.project_id = %(project_id)s)
  AND (%(after_time)s::timestamptz IS NULL OR (s.created_at, s.id) > (%(after_time)s, %(after_id)s))
ORDER BY s.created_at, s.id LIMIT %(limit)s

-- name: index
SELECT id, project_id, source, folder_node_id, settings, vector_store, keyword_index, namespace, epoch
FROM search_index WHERE id = %(index_id)s AND deleted_at IS NULL

-- name: lock_tools_index
SELECT i.id FROM search_tool s JOIN search_index i ON i.id = s.index_id WHERE s.id = %(tool_id)s
FOR NO KEY UPDATE OF i

-- name: delete_tool
DELETE FROM search_tool WHERE id = %(tool_id)s

-- name: bury_index
-- the raised epoch shuts out every worker that still writes
UPDATE search_index i SET deleted_at = now(), epoch = epoch + 1
WHERE i.id = %(index_id)s AND i.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM search_tool s WHERE s.index_id = i.id)

-- name: cancel_buried
UPDATE search_index_task t SET status = 'cancelled', finished_at = now(), plan_owner = NULL, plan_until = NULL
FROM search_index i
WHERE t.index_id = %(index_id)s AND i.id = t.index_id AND i.deleted_at IS NOT NULL AND t.status IN ('pending', 'indexing')

-- name: project_tools
SELECT id FROM search_tool WHERE project_id = %(project_id)s ORDER BY id

-- name: project_exists
SELECT EXISTS (SELECT FROM content_node WHERE project_id = %(project_id)s)
    OR EXISTS (SELECT FROM search_tool WHERE project_id = %(project_id)s)
    OR EXISTS (SELECT FROM api_key WHERE project_id = %(project_id)s)

-- name: delete_project_rows
WITH keys AS (DELETE FROM api_key WHERE project_id = %(project_id)s),
     cached AS (DELETE FROM embedding_cache WHERE project_id = %(project_id)s)
DELETE FROM content_node WHERE project_id = %(project_id)s RETURNING object_key

-- name: buried
SELECT id, namespace, vector_store, keyword_index, deleted_at < now() - %(late)s AS final
FROM search_index WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT 100

-- name: purge_chunks
DELETE FROM chunk WHERE id IN (SELECT id FROM chunk WHERE index_id = %(index_id)s LIMIT 5000)

-- name: purge_files
DELETE FROM search_index_file WHERE index_id = %(index_id)s

-- name: purge_index
DELETE FROM search_index WHERE id = %(index_id)s
