-- name: add
INSERT INTO source_grant (project_id, place, real_place) VALUES (%(project_id)s, %(place)s, %(real_place)s)
ON CONFLICT (project_id, place) DO UPDATE SET real_place = excluded.real_place
WHERE source_grant.real_place IS DISTINCT FROM excluded.real_place

-- name: keep_real_place
UPDATE source_grant SET real_place = coalesce(real_place, %(real_place)s)
WHERE project_id = %(project_id)s AND place = %(place)s RETURNING real_place

-- name: remove
DELETE FROM source_grant WHERE project_id = %(project_id)s AND place = %(place)s

-- name: list
SELECT project_id, place, real_place, created_at FROM source_grant
WHERE %(project_id)s::text IS NULL OR project_id = %(project_id)s ORDER BY project_id, place
