-- name: add
INSERT INTO source_grant (project_id, place) VALUES (%(project_id)s, %(place)s) ON CONFLICT DO NOTHING

-- name: remove
DELETE FROM source_grant WHERE project_id = %(project_id)s AND place = %(place)s

-- name: list
SELECT project_id, place, created_at FROM source_grant
WHERE %(project_id)s::text IS NULL OR project_id = %(project_id)s ORDER BY project_id, place

