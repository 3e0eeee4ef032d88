-- The content tree for the nodes source.

-- name: find_node
SELECT id, id_path, name, type, size_bytes, version, :created AS created,
    (extract(epoch FROM updated_at) * 1000)::bigint AS mtime_ms
FROM content_node n
WHERE project_id = %(project_id)s AND id = %(node_id)s

-- name: list_nodes
-- A range of id_path instead of LIKE: an id may contain LIKE wildcards.
SELECT id, id_path, name, type, size_bytes, version, :created AS created,
    (extract(epoch FROM updated_at) * 1000)::bigint AS mtime_ms
FROM content_node n
WHERE project_id = %(project_id)s AND id_path > %(after)s AND id_path < %(before)s AND type <> 'folder'
ORDER BY id_path
LIMIT %(page_size)s

-- name: list_below
-- the same, at and below some nodes
SELECT n.id, n.id_path, n.name, n.type, n.size_bytes, n.version,
    :created AS created,
    (extract(epoch FROM n.updated_at) * 1000)::bigint AS mtime_ms
FROM unnest(%(tops)s::text[]) AS t (id_path)
JOIN content_node n ON n.project_id = %(project_id)s AND n.id_path >= t.id_path AND n.id_path < t.id_path || '0'
WHERE (n.id_path = t.id_path OR starts_with(n.id_path, t.id_path || '/')) AND n.id_path > %(after)s AND n.type <> 'folder'
ORDER BY n.id_path
LIMIT %(page_size)s

-- name: find_tops
-- the nodes to list below a root; an ignore file is replaced by its folder
SELECT DISTINCT CASE WHEN name = ANY (%(names)s) AND type <> 'folder' THEN regexp_replace(id_path, '/[^/]*$', '')
                     ELSE id_path END AS id_path
FROM content_node
WHERE project_id = %(project_id)s AND id = ANY (%(ids)s) AND (id_path = %(root)s OR starts_with(id_path, %(root)s || '/'))

-- name: name_nodes
SELECT id, name
FROM content_node
WHERE project_id = %(project_id)s AND id = ANY(%(ids)s)

-- name: read_node
-- JSON above the limit is not sent at all.
SELECT type, object_key, octet_length(json::text) AS json_bytes, version,
    CASE WHEN octet_length(json::text) <= %(limit)s THEN json::text END AS json_text,
    :created AS created
FROM content_node n
WHERE project_id = %(project_id)s AND id = %(node_id)s
    -- it may have been moved out of the folder since it was listed
    AND EXISTS (
        SELECT 1 FROM content_node AS root
        WHERE root.project_id = %(project_id)s AND root.id = %(root_id)s
            AND (root.id = n.id OR starts_with(n.id_path, root.id_path || '/'))
    )

-- name: find_ignore_files
SELECT id, parent_id AS folder, name
FROM content_node
WHERE project_id = %(project_id)s AND parent_id = ANY(%(ids)s) AND name = ANY(%(names)s) AND type <> 'folder'
