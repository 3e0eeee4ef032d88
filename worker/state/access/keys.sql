-- name: valid
SELECT id, project_id, scopes FROM api_key WHERE key_hash = %(key_hash)s AND :key_is_valid

-- name: note_use
-- no call waits for a session that changes the key
UPDATE api_key SET last_used_at = date_trunc('minute', now())
WHERE id = (
    SELECT id FROM api_key WHERE id = %(id)s AND coalesce(last_used_at < date_trunc('minute', now()), true)
    FOR NO KEY UPDATE SKIP LOCKED
)

-- name: list
SELECT :key_columns FROM api_key
WHERE (%(project_id)s::text IS NULL OR project_id = %(project_id)s)
  AND (%(created_at)s::timestamptz IS NULL OR (created_at, id) > (%(created_at)s, %(id)s::uuid))
ORDER BY created_at, id LIMIT %(limit)s

-- name: get
SELECT :key_columns FROM api_key
WHERE id = %(id)s AND (%(project_id)s::text IS NULL OR project_id = %(project_id)s)

-- name: lock_keys
-- the keys of a project change one after the other
SELECT pg_advisory_xact_lock(hashtextextended('api_key ' || %(project_id)s, 0))

-- name: count_valid
-- a replaced key ends soon
SELECT count(*), count(*) FILTER (WHERE replaced_by IS NULL AND 'admin' = ANY (scopes)) FROM api_key
WHERE project_id = %(project_id)s AND :key_is_valid AND id IS DISTINCT FROM %(without)s

-- name: insert
INSERT INTO api_key (id, project_id, name, key_hash, scopes, expires_at)
VALUES (%(id)s, %(project_id)s, %(name)s, %(key_hash)s, %(scopes)s, now() + %(lifetime)s)
RETURNING :key_columns

-- name: replace
UPDATE api_key SET replaced_by = %(replaced_by)s, expires_at = least(expires_at, now() + %(overlap)s)
WHERE id = %(id)s

-- name: revoke
UPDATE api_key SET revoked_at = now() WHERE id = %(id)s RETURNING :key_columns

-- name: forget_ended
DELETE FROM api_key WHERE least(revoked_at, expires_at) < now() - %(kept)s
