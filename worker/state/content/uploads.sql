-- Turns the files of an upload into nodes.

-- name: children
-- Nodes with these names in these folders (null: the root). Of several it returns the oldest, preferably of the wanted
-- kind.
SELECT DISTINCT ON (w.place) w.place, n.id, n.id_path, n.type, n.object_key
FROM unnest(%(parents)s::text[], %(names)s::text[]) WITH ORDINALITY AS w (parent, name, place)
CROSS JOIN LATERAL (
    SELECT * FROM content_node
    WHERE project_id = %(project_id)s AND parent_id = w.parent
      AND hashtextextended(name, 0) = hashtextextended(w.name, 0) AND name = w.name
    UNION ALL
    SELECT * FROM content_node
    WHERE w.parent IS NULL AND project_id = %(project_id)s AND parent_id IS NULL
      AND hashtextextended(name, 0) = hashtextextended(w.name, 0) AND name = w.name
) n
ORDER BY w.place, (n.type = 'folder') = %(folder)s DESC, n.created_at, n.id

-- name: insert
INSERT INTO content_node (project_id, id, parent_id, id_path, name, type, object_key, size_bytes, version, metadata,
    all_metadata, own_acl)
VALUES (%(project_id)s, %(id)s, %(parent_id)s, %(id_path)s, %(name)s, %(type)s, %(object_key)s, %(size)s, %(versions)s,
    nullif(%(metadata)s::jsonb, '{}'), :with_inherited, %(own_acl)s)

-- name: update
-- if the name implies no type, a type that was set explicitly stays
UPDATE content_node
SET json = NULL, object_key = %(object_key)s, size_bytes = %(size)s, version = version + %(versions)s, updated_at = now(),
    type = CASE WHEN %(type)s = 'file' THEN type ELSE %(type)s END,
    metadata = nullif(coalesce(%(metadata)s::jsonb, metadata), '{}'),
    all_metadata = CASE WHEN %(metadata)s::jsonb IS NULL THEN all_metadata ELSE :with_inherited END,
    own_acl = coalesce(%(own_acl)s, own_acl)
WHERE project_id = %(project_id)s AND id = %(id)s

-- name: sizes
-- see `note_sizes`
SELECT :changed_size FROM content_node WHERE project_id = %(project_id)s AND id_path = ANY (%(id_paths)s)
