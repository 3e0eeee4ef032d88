-- name: insert
INSERT INTO acl_class (project_id, entries, digest) VALUES (%(project_id)s, %(entries)s, %(digest)s)
ON CONFLICT DO NOTHING RETURNING id

-- name: find
SELECT id FROM acl_class WHERE project_id = %(project_id)s AND digest = %(digest)s

-- name: note_change
INSERT INTO metadata_change AS m (project_id, acl_version) VALUES (%(project_id)s, %(revokes)s::int)
ON CONFLICT (project_id) DO UPDATE
SET version = m.version + 1, acl_version = m.acl_version + excluded.acl_version

-- name: version
-- the number of times that a caller may have lost access, and of changes; no row: the project never had a list
SELECT coalesce(m.acl_version, 0), coalesce(m.version, 0)
FROM (SELECT WHERE EXISTS (SELECT FROM acl_class a WHERE a.project_id = %(project_id)s)) l
LEFT JOIN metadata_change m ON m.project_id = %(project_id)s

-- name: readable
-- One lookup of the index for each entry of the caller: its cost depends on neither the number of other lists nor
-- the statistics. OFFSET 0 keeps the planner from reading all lists for a join.
WITH held AS MATERIALIZED (
    SELECT DISTINCT l.id FROM unnest(acl_keys(%(project_id)s, %(admitting)s)) AS k (key)
    CROSS JOIN LATERAL (
        SELECT a.id FROM acl_class a WHERE acl_keys(a.project_id, a.entries) @> ARRAY[k.key] OFFSET 0
    ) l
)
SELECT l.id FROM held h
CROSS JOIN LATERAL (SELECT a.id FROM acl_class a WHERE a.id = h.id AND a.project_id = %(project_id)s AND :admits OFFSET 0) l

-- name: visible_files
SELECT f.id, coalesce(f.node_id, f.id::text) AS node_id, CASE WHEN %(with_paths)s THEN f.path END AS path
FROM :files_with_lists
WHERE i.id = %(index_id)s AND f.status <> 'removed' AND :is_in_classes
ORDER BY f.path, f.id

-- name: any_hidden
-- includes nodes that no run has listed yet, because a run adds them while this answer still counts
SELECT EXISTS (SELECT FROM :files_with_lists WHERE i.id = %(index_id)s AND NOT :is_in_classes) OR EXISTS (
    SELECT FROM search_index i
    WHERE i.id = %(index_id)s AND EXISTS (:nodes_with_lists AND n.acl_class <> ALL (%(classes)s)))

-- name: may_hide
SELECT EXISTS (SELECT FROM search_index i WHERE i.id = %(index_id)s AND EXISTS (:nodes_with_lists))

-- name: may_hide_below
SELECT EXISTS (
    SELECT FROM (SELECT %(project_id)s::text AS project_id, jsonb_build_object('node_id', %(node_id)s::text) AS source) i
    WHERE EXISTS (:nodes_with_lists))

-- name: visible_nodes
-- the given nodes that are in readable classes, or in none
SELECT id FROM content_node WHERE project_id = %(project_id)s AND id = ANY (%(ids)s)
  AND (acl_class IS NULL OR acl_class = ANY (%(classes)s))
