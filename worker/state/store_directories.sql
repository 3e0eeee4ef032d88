-- name: installation
SELECT id FROM installation

-- name: find
SELECT id, home FROM store_directory WHERE kind = %(kind)s

-- name: claim
-- one of several concurrent directories wins
INSERT INTO store_directory (kind, id, home) VALUES (%(kind)s, %(id)s, %(home)s) ON CONFLICT DO NOTHING

-- name: adopt
INSERT INTO store_directory (kind, id, home) VALUES (%(kind)s, %(id)s, %(home)s)
ON CONFLICT (kind) DO UPDATE SET id = %(id)s, home = %(home)s, missing_since = NULL, missing_at = NULL,
    refused_at = NULL, refusal = NULL

-- name: miss
-- seconds for which the directory has been missing, over checks without a long gap between them
UPDATE store_directory
SET missing_since = CASE WHEN missing_at > now() - %(pause)s THEN missing_since ELSE now() END, missing_at = now()
WHERE kind = %(kind)s AND id = %(id)s
RETURNING extract(epoch FROM now() - missing_since)::float8

-- name: replace
-- one of several concurrent processes makes the new directory
UPDATE store_directory SET id = %(new)s, missing_since = NULL, missing_at = NULL WHERE kind = %(kind)s AND id = %(id)s

-- name: refuse
UPDATE store_directory SET refused_at = now(), refusal = %(refusal)s
WHERE kind = (SELECT kind FROM store_directory WHERE kind = %(kind)s FOR NO KEY UPDATE SKIP LOCKED)

-- name: refusals
SELECT refusal FROM store_directory WHERE refused_at > now() - %(recent)s ORDER BY kind

-- name: vectors
-- tables that must be in the directory of a vector store
SELECT i.namespace FROM search_index i
WHERE i.vector_store = %(kind)s AND i.deleted_at IS NULL AND EXISTS (
    SELECT FROM search_index_file f WHERE f.index_id = i.id AND f.live_chunks > 0 AND f.live_embedded)
ORDER BY i.id LIMIT %(limit)s

-- name: contents
-- objects that must be in the directory of contents
SELECT object_key FROM content_node WHERE object_key IS NOT NULL ORDER BY object_key LIMIT %(limit)s
