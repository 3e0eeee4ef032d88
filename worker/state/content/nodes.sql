-- name: with_json
-- as text: parsing it would take twenty times its size
SELECT id, project_id, parent_id, id_path, name, type, json::text AS json_text, object_key, size_bytes AS size, version, created_at,
       updated_at, url, metadata, :acl_of_node
FROM content_node n WHERE project_id = %(project_id)s AND id = %(id)s

-- name: without_json
SELECT id, project_id, parent_id, id_path, name, type, object_key, size_bytes AS size, version, created_at, updated_at,
       url, metadata, :acl_of_node
FROM content_node n WHERE project_id = %(project_id)s AND id = %(id)s

-- name: check_json
SELECT %(text)s::json IS NULL

-- name: page
-- The prefix of the name comes first because the index has only that. `classes`: the lists that admit the caller. The
-- caller has so many that hidden nodes are skipped one by one.
SELECT :listed_node FROM content_node n
WHERE :is_in_folder AND (%(classes)s::int[] IS NULL OR acl_class IS NULL OR acl_class = ANY (%(classes)s))
  AND (%(after_name)s::text IS NULL
       OR (left(name, 200) COLLATE "C", name COLLATE "C", id COLLATE "C")
          > (left(%(after_name)s, 200), %(after_name)s, %(after_id)s))
ORDER BY left(name, 200) COLLATE "C", name COLLATE "C", id COLLATE "C" LIMIT %(limit)s

-- name: page_of_classes
-- The same without reading hidden nodes, so that the time does not reveal their number. Only lists whose first node is
-- among the first ones have nodes of the page. The prefix is spelled as in the index that begins with the list, so that
-- the planner prefers it to the index of the query above.
WITH first_lists AS (
    SELECT c.class FROM unnest(%(classes)s::int[]) AS c (class)
    CROSS JOIN LATERAL (
        SELECT substr(name, 1, 200) COLLATE "C" AS start FROM content_node n WHERE :is_next_of_class
        ORDER BY substr(name, 1, 200) COLLATE "C" LIMIT 1) n
    ORDER BY n.start FETCH FIRST %(limit)s ROWS WITH TIES
)
SELECT n.* FROM first_lists c
CROSS JOIN LATERAL (
    SELECT :listed_node FROM content_node n WHERE :is_next_of_class
    ORDER BY substr(name, 1, 200) COLLATE "C", name COLLATE "C", id COLLATE "C" LIMIT %(limit)s) n
ORDER BY name COLLATE "C", id COLLATE "C" LIMIT %(limit)s

-- name: insert
-- a trigger sets the effective list
INSERT INTO content_node (project_id, id, parent_id, id_path, name, type, json, object_key, size_bytes, url, metadata,
    all_metadata, own_acl)
VALUES (%(project_id)s, %(id)s, %(parent_id)s, %(id_path)s, %(name)s, %(type)s, %(json)s, %(object_key)s, %(size)s, %(url)s,
    %(metadata)s, :with_inherited, %(own_acl)s)
ON CONFLICT DO NOTHING RETURNING :changed_size

-- name: set_content
UPDATE content_node
SET json = %(json)s, object_key = %(object_key)s, size_bytes = %(size)s, version = version + 1, updated_at = now()
WHERE project_id = %(project_id)s AND id = %(id)s

-- name: set_place
UPDATE content_node SET name = %(name)s, type = %(type)s, parent_id = %(parent_id)s, updated_at = now()
WHERE project_id = %(project_id)s AND id = %(id)s

-- name: set_url
UPDATE content_node SET url = %(url)s, updated_at = now() WHERE project_id = %(project_id)s AND id = %(id)s

-- name: set_metadata
UPDATE content_node SET metadata = %(metadata)s, updated_at = now() WHERE project_id = %(project_id)s AND id = %(id)s

-- name: set_acl
UPDATE content_node SET own_acl = %(own_acl)s, updated_at = now() WHERE project_id = %(project_id)s AND id = %(id)s

-- name: inherit
-- Updates the values and the effective lists of a node and its descendants. A process of an older release may have
-- written any of these, so the walk continues below an unchanged one.
WITH RECURSIVE walked AS (
    SELECT n.id, m.all_metadata, coalesce(n.own_acl, p.acl_class) AS acl_class, n.acl_class AS old_class
    FROM content_node n LEFT JOIN content_node p ON p.project_id = n.project_id AND p.id = n.parent_id
    CROSS JOIN LATERAL (SELECT nullif(coalesce(p.all_metadata, '{}') || coalesce(n.metadata, '{}'), '{}') AS all_metadata) m
    WHERE n.project_id = %(project_id)s AND n.id = %(id)s
    UNION ALL
    SELECT n.id, m.all_metadata, coalesce(n.own_acl, w.acl_class), n.acl_class
    FROM walked w JOIN content_node n ON n.project_id = %(project_id)s AND n.parent_id = w.id
    CROSS JOIN LATERAL (SELECT nullif(coalesce(w.all_metadata, '{}') || coalesce(n.metadata, '{}'), '{}') AS all_metadata) m
), changed AS (
    UPDATE content_node n SET all_metadata = w.all_metadata, acl_class = w.acl_class FROM walked w
    WHERE n.project_id = %(project_id)s AND n.id = w.id
      AND (n.all_metadata, n.acl_class) IS DISTINCT FROM (w.all_metadata, w.acl_class)
    RETURNING octet_length(n.all_metadata::text) AS size, w.old_class IS DISTINCT FROM w.acl_class AS has_other_list
)
SELECT coalesce(max(size), 0), coalesce(bool_or(has_other_list), false) FROM changed

-- name: listed_projects
SELECT DISTINCT project_id FROM acl_class
WHERE %(tool_id)s::uuid IS NULL OR project_id = (SELECT s.project_id FROM search_tool s WHERE s.id = %(tool_id)s)
ORDER BY project_id

-- name: projects_with_unused_lists
SELECT DISTINCT a.project_id FROM acl_class a WHERE :is_unused_list LIMIT %(limit)s

-- name: forget_lists
DELETE FROM acl_class a WHERE a.project_id = %(project_id)s AND :is_unused_list

-- name: count_nodes
SELECT count(*) FROM content_node WHERE project_id = %(project_id)s

-- name: misfiled
-- nodes whose list differs from their own and their folder's, the topmost first; below one, all may be wrong
SELECT n.id FROM content_node n LEFT JOIN content_node p ON p.project_id = n.project_id AND p.id = n.parent_id
WHERE n.project_id = %(project_id)s AND n.acl_class IS DISTINCT FROM coalesce(n.own_acl, p.acl_class)
ORDER BY length(n.id_path), n.id

-- name: deepest_after_move
-- bytes of the longest id_path after the move
SELECT max(octet_length(id_path)) - octet_length(%(old)s) + octet_length(%(new)s) FROM content_node
WHERE project_id = %(project_id)s AND (id_path = %(old)s OR starts_with(id_path, %(old)s || '/'))

-- name: move_below
UPDATE content_node SET id_path = %(new)s || substr(id_path, length(%(old)s) + 1)
WHERE project_id = %(project_id)s AND (id_path = %(old)s OR starts_with(id_path, %(old)s || '/'))

-- name: delete
-- returns the objects that no node refers to any more
WITH gone AS (
    DELETE FROM content_node
    WHERE project_id = %(project_id)s AND (id_path = %(id_path)s OR starts_with(id_path, %(id_path)s || '/'))
    RETURNING object_key
)
INSERT INTO content_stray (key, due_at) SELECT object_key, now() FROM gone WHERE object_key IS NOT NULL
ON CONFLICT DO NOTHING RETURNING key

-- name: id_paths
SELECT id, id_path FROM content_node WHERE project_id = %(project_id)s AND id = ANY (%(ids)s)

-- name: at_ids
SELECT id, id_path, type FROM content_node WHERE project_id = %(project_id)s AND id_path = %(path)s

-- name: at_names
-- names are spelled as in file_path; several nodes of one folder may have the same name
WITH RECURSIVE walk AS (
    SELECT id, id_path, type, 1 AS depth FROM content_node
    WHERE project_id = %(project_id)s AND parent_id IS NULL AND replace(name, '/', %(slash)s) = (%(names)s::text[])[1]
    UNION ALL
    SELECT n.id, n.id_path, n.type, w.depth + 1
    FROM walk w JOIN content_node n ON n.project_id = %(project_id)s AND n.parent_id = w.id
    WHERE replace(n.name, '/', %(slash)s) = (%(names)s::text[])[w.depth + 1])
SELECT id, id_path, type FROM walk WHERE depth = cardinality(%(names)s::text[]) ORDER BY id_path
