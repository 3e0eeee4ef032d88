-- name: insert
INSERT INTO api_key (id, project_id, name, key_hash) VALUES (%(id)s, %(project_id)s, %(name)s, %(key_hash)s)

-- name: project
SELECT project_id FROM api_key WHERE key_hash = %(key_hash)s AND revoked_at IS NULL

-- name: list
SELECT id, project_id, name, created_at, revoked_at FROM api_key
WHERE %(project_id)s::text IS NULL OR project_id = %(project_id)s ORDER BY created_at, id

-- name: revoke
UPDATE api_key SET revoked_at = now() WHERE id = %(id)s AND revoked_at IS NULL
