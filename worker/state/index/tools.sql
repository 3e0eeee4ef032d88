-- name: insert_index
-- a name is used only once: a late writer or a late drop affects only its own index
WITH named AS (
    INSERT INTO namespace_name (name, index_id, vector_store, keyword_index)
    VALUES (%(namespace)s, %(id)s, %(vector_store)s, %(keyword_index)s)
    ON CONFLICT DO NOTHING RETURNING name
)
INSERT INTO search_index (id, project_id, identity, source, folder_node_id, settings, vector_store, keyword_index, text_key,
                          namespace)
SELECT %(id)s, %(project_id)s, %(identity)s, %(source)s, %(folder_node_id)s, %(settings)s, %(vector_store)s,
       %(keyword_index)s, %(text_key)s, name
FROM named
ON CONFLICT DO NOTHING

-- name: lock_index
-- every transaction locks an index before its tasks; with NO KEY, a listing that holds its task can still add files
SELECT id FROM search_index WHERE project_id = %(project_id)s AND identity = %(identity)s AND deleted_at IS NULL
FOR NO KEY UPDATE

-- name: find_index
SELECT id FROM search_index WHERE project_id = %(project_id)s AND identity = %(identity)s AND deleted_at IS NULL

-- name: first_precision
SELECT settings #>> '{embedder,precision}' FROM search_index
WHERE project_id = %(project_id)s AND source = %(source)s AND settings #>> '{embedder,model}' = %(model)s
  AND deleted_at IS NULL
ORDER BY created_at LIMIT 1

-- name: newest_local_model
SELECT settings #>> '{embedder,model}', settings ->> 'model_reason' FROM search_index
WHERE project_id = %(project_id)s AND source = %(source)s AND starts_with(settings #>> '{embedder,model}', 'local/')
  AND deleted_at IS NULL
ORDER BY created_at DESC LIMIT 1

-- name: first_keyword_index
SELECT keyword_index FROM search_index
WHERE project_id = %(project_id)s AND source = %(source)s AND vector_store = %(vector_store)s AND deleted_at IS NULL
ORDER BY created_at LIMIT 1

-- name: newest_file_stems
SELECT coalesce((settings ->> 'file_stems')::boolean, false) FROM search_index
WHERE project_id = %(project_id)s AND source = %(source)s AND settings #>> '{embedder,model}' = %(model)s
  AND deleted_at IS NULL
ORDER BY created_at DESC LIMIT 1

-- name: is_full
SELECT count(*) >= %(most)s FROM search_tool WHERE project_id = %(project_id)s

-- name: newest_text_key
SELECT text_key FROM search_index
WHERE project_id = %(project_id)s AND source = %(source)s AND vector_store = %(vector_store)s AND deleted_at IS NULL
ORDER BY created_at DESC LIMIT 1

-- name: insert_tool
INSERT INTO search_tool (id, project_id, name, index_id, node_id, source, config, next_run_at)
VALUES (%(id)s, %(project_id)s, %(name)s, %(index_id)s, %(node_id)s, %(source)s, %(config)s,
        now() + make_interval(secs => (%(config)s::jsonb ->> 'every')::float8))

-- name: tools
SELECT s.id AS tool_id, s.project_id, s.name, s.node_id, s.source, s.config, s.created_at, s.updated_at, s.update_error,
       i.namespace, (i.settings -> 'embedder') || jsonb_build_object(
           'index_id', i.id, 'model_reason', i.settings -> 'model_reason',
           'file_stems', coalesce(i.settings -> 'file_stems', 'false')) AS index, :shown_status AS task, :may_hide AS may_hide,
       CASE WHEN n.id IS NOT NULL THEN jsonb_build_object(
           'config', s.next_config, 'namespace', n.namespace,
           'index', (n.settings -> 'embedder') || jsonb_build_object(
           'index_id', n.id, 'model_reason', n.settings -> 'model_reason',
           'file_stems', coalesce(n.settings -> 'file_stems', 'false')),
           'task_id', u.id, 'status', u.status, 'progress', u.progress) END AS updating
FROM search_tool s
JOIN search_index i ON i.id = s.index_id :newest_task_of_tool
LEFT JOIN search_index n ON n.id = s.next_index_id
LEFT JOIN LATERAL (
    SELECT id, status, progress FROM search_index_task WHERE index_id = s.next_index_id
    ORDER BY created_at DESC LIMIT 1) u ON true
WHERE (%(tool_id)s::uuid IS NULL OR s.id = %(tool_id)s)
  AND (%(project_id)s::text IS NULL OR s.project_id = %(project_id)s)
  AND (%(after_time)s::timestamptz IS NULL OR (s.created_at, s.id) > (%(after_time)s, %(after_id)s))
ORDER BY s.created_at, s.id LIMIT %(limit)s

-- name: fitting
-- the tools of a page up to a number of bytes of caller-defined columns, which are most of a large row
SELECT count(*) FROM (
    SELECT sum(octet_length(s.config::text) + coalesce(octet_length(s.next_config::text), 0)
               + coalesce(octet_length(s.source::text), 0)) OVER (ORDER BY s.created_at, s.id) AS bytes
    FROM search_tool s
    WHERE (%(project_id)s::text IS NULL OR s.project_id = %(project_id)s)
      AND (%(after_time)s::timestamptz IS NULL OR (s.created_at, s.id) > (%(after_time)s, %(after_id)s))
    ORDER BY s.created_at, s.id LIMIT %(limit)s) s
WHERE bytes <= %(most_bytes)s

-- name: index
SELECT :index_columns FROM search_index i WHERE i.id = %(index_id)s AND i.deleted_at IS NULL

-- name: index_of_tool
SELECT :index_columns, s.config ->> 'url_template' AS url_template, :metadata_view AS metadata, s.id AS tool_id
FROM search_tool s JOIN search_index i ON i.id = s.index_id WHERE s.id = %(tool_id)s

-- name: searchable
SELECT s.id, s.name, :index_columns, s.config ->> 'url_template', :metadata_view, s.id
FROM search_tool s JOIN search_index i ON i.id = s.index_id
WHERE s.project_id = %(project_id)s AND (%(tool_ids)s::uuid[] IS NULL OR s.id = ANY (%(tool_ids)s))
ORDER BY s.created_at DESC, s.id

-- name: over_whole
-- the oldest tool that indexes all of a source, and whose config has these values now and after a pending change
SELECT id, name FROM search_tool
WHERE project_id = %(project_id)s AND source = %(source)s AND config @> %(config)s
  AND coalesce(next_config, config) @> %(config)s
  AND NOT (config || coalesce(next_config, '{}'))
      ?| ARRAY ['include', 'exclude', 'types', 'min_token_count', 'max_token_count']
ORDER BY created_at, id LIMIT 1

-- name: over_source
-- the newest tool over a source, whatever its config
SELECT id, name FROM search_tool WHERE project_id = %(project_id)s AND source = %(source)s
ORDER BY created_at DESC, id LIMIT 1

-- name: any_busy
SELECT EXISTS (
    SELECT FROM search_tool s JOIN search_index_task t ON t.index_id = s.index_id AND t.status IN :open
    WHERE s.id = ANY (%(tool_ids)s))

-- name: delete_tool
DELETE FROM search_tool WHERE id = %(tool_id)s

-- name: rename
UPDATE search_tool SET name = %(name)s, updated_at = now() WHERE id = %(tool_id)s

-- name: set_config
UPDATE search_tool
SET config = %(config)s, update_error = NULL, updated_at = now(),
    next_run_at = now() + make_interval(secs => (%(config)s::jsonb ->> 'every')::float8)
WHERE id = %(tool_id)s

-- name: set_derived
-- also in the config of an index that is being built
UPDATE search_tool
SET config = config || jsonb_build_object(%(name)s::text, %(part)s::jsonb),
    next_config = next_config || jsonb_build_object(%(name)s::text, %(part)s::jsonb), updated_at = now()
WHERE id = %(tool_id)s

-- name: index_id
SELECT index_id FROM search_tool WHERE id = %(tool_id)s

-- name: set_next_config
-- the fields that define metadata filters take effect at once, because they need no other index
UPDATE search_tool
SET next_config = %(config)s, updated_at = now(), config = config - %(at_once)s::text[] || %(now)s::jsonb
WHERE id = %(tool_id)s

-- name: project_tools
SELECT id FROM search_tool WHERE project_id = %(project_id)s ORDER BY id

-- name: projects
SELECT DISTINCT project_id FROM search_tool ORDER BY project_id LIMIT %(limit)s

-- name: project_exists
SELECT EXISTS (SELECT FROM content_node WHERE project_id = %(project_id)s)
    OR EXISTS (SELECT FROM search_tool WHERE project_id = %(project_id)s)
    OR EXISTS (SELECT FROM api_key WHERE project_id = %(project_id)s)

-- name: wait_for_vectors_and_keys
-- see "hold_project" of the cache, and "lock_keys"
SELECT pg_advisory_xact_lock(hashtextextended('embedding_cache ' || %(project_id)s, 0)),
    pg_advisory_xact_lock(hashtextextended('api_key ' || %(project_id)s, 0))

-- name: delete_project_rows
WITH keys AS (DELETE FROM api_key WHERE project_id = %(project_id)s),
     turns AS (DELETE FROM project_turn WHERE project_id = %(project_id)s),
     changed AS (DELETE FROM metadata_change WHERE project_id = %(project_id)s),
     lists AS (DELETE FROM acl_class WHERE project_id = %(project_id)s),
     granted AS (DELETE FROM source_grant WHERE project_id = %(project_id)s),
     cached AS (DELETE FROM embedding_cache WHERE project_id = %(project_id)s),
     gone AS (DELETE FROM content_node WHERE project_id = %(project_id)s RETURNING object_key)
INSERT INTO content_stray (key, due_at) SELECT object_key, now() FROM gone WHERE object_key IS NOT NULL
ON CONFLICT DO NOTHING RETURNING key

-- name: buried
-- due twice: while there are files left, and once no late write can follow
WITH due AS (
    SELECT i.id, namespace, keyword_index, deleted_at < now() - %(late)s AS final, coalesce(u.after, deleted_at) AS since
    FROM search_index i LEFT JOIN search_index_upkeep u ON u.index_id = i.id
    WHERE vector_store = %(vector_store)s AND deleted_at <= now()
      AND (deleted_at < now() - %(late)s OR EXISTS (SELECT FROM search_index_file f WHERE f.index_id = i.id))
      -- none is delayed for longer, unless Postgres' clock was set back
      AND coalesce(NOT u.after BETWEEN now() AND now() + %(longest)s, true)
    ORDER BY since LIMIT %(limit)s
)
SELECT d.id, d.namespace, d.keyword_index, d.final,
       coalesce(array_agg(n.name) FILTER (WHERE n.name <> d.namespace), '{}') AS derived
FROM due d LEFT JOIN namespace_name n ON n.index_id = d.id
GROUP BY d.id, d.namespace, d.keyword_index, d.final, d.since ORDER BY d.since

-- name: purge_chunks
DELETE FROM chunk
WHERE id = ANY (ARRAY (SELECT id FROM chunk WHERE index_id = %(index_id)s LIMIT 5000 FOR UPDATE SKIP LOCKED))

-- name: purge_tombstones
-- the vectors were dropped with the namespace
DELETE FROM chunk_tombstone WHERE index_id = %(index_id)s

-- name: purge_listing
DELETE FROM search_index_listing WHERE task_id IN (SELECT id FROM search_index_task WHERE index_id = %(index_id)s)

-- name: purge_files
DELETE FROM search_index_file
WHERE id = ANY (ARRAY (SELECT id FROM search_index_file WHERE index_id = %(index_id)s LIMIT 5000 FOR UPDATE SKIP LOCKED))

-- name: purge_index
-- the names of its namespaces stay, to be checked
WITH gone AS (DELETE FROM search_index WHERE id = %(index_id)s RETURNING id)
UPDATE namespace_name n SET retired_at = now(), next_check_at = now() + %(pause)s FROM gone WHERE n.index_id = gone.id
