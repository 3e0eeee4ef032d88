-- name: get
SELECT id, project_id, parent_id, id_path, name, type, json, object_key, size_bytes AS size, version, created_at, updated_at
FROM content_node WHERE project_id = %(project_id)s AND id = %(id)s

-- name: insert
INSERT INTO content_node (project_id, id, parent_id, id_path, name, type, json, object_key, size_bytes)
VALUES (%(project_id)s, %(id)s, %(parent_id)s, %(id_path)s, %(name)s, %(type)s, %(json)s, %(object_key)s, %(size)s)
ON CONFLICT DO NOTHING

-- name: set_content
UPDATE content_node
SET json = %(json)s, object_key = %(object_key)s, size_bytes = %(size)s, version = version + 1, updated_at = now()
WHERE project_id = %(project_id)s AND id = %(id)s

-- name: set_place
UPDATE content_node SET name = %(name)s, parent_id = %(parent_id)s, updated_at = now()
WHERE project_id = %(project_id)s AND id = %(id)s

-- name: move_below
UPDATE content_node SET id_path = %(new)s || substr(id_path, length(%(old)s) + 1)
WHERE project_id = %(project_id)s AND (id_path = %(old)s OR starts_with(id_path, %(old)s || '/'))

-- name: delete
-- gives the objects that no node names any more
WITH gone AS (
    DELETE FROM content_node
    WHERE project_id = %(project_id)s AND (id_path = %(id_path)s OR starts_with(id_path, %(id_path)s || '/'))
    RETURNING object_key
)
INSERT INTO content_stray (key, due_at) SELECT object_key, now() FROM gone WHERE object_key IS NOT NULL
ON CONFLICT DO NOTHING RETURNING key
