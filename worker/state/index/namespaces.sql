-- Names of namespaces whose indexes are deleted.

-- name: register
-- before the first vector is written to it, so that it is deleted with the index
INSERT INTO namespace_name (name, index_id, vector_store, keyword_index)
SELECT i.namespace || %(suffix)s, i.id, i.vector_store, i.keyword_index FROM search_index i
WHERE i.id = ANY (%(index_ids)s) ON CONFLICT DO NOTHING

-- name: take_due
-- The pause grows with the time since the index was deleted. A check that fails, or whose process dies, is repeated
-- after the first pause.
UPDATE namespace_name SET next_check_at = now() + %(pause)s
WHERE name = ANY (ARRAY (
    SELECT name FROM namespace_name WHERE next_check_at <= now() AND vector_store = ANY (%(stores)s)
    ORDER BY next_check_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING name, vector_store, keyword_index

-- name: checked
UPDATE namespace_name
SET next_check_at = CASE WHEN now() - retired_at < %(watched)s
                         THEN now() + greatest(%(pause)s, least(now() - retired_at, %(longest)s)) END
WHERE name = (SELECT name FROM namespace_name WHERE name = %(name)s FOR NO KEY UPDATE SKIP LOCKED)
