-- Names of namespaces whose indexes are deleted.

-- name: take_due
-- The pause grows with the time since the index was deleted. A check that fails, or whose process dies, is repeated
-- after the first pause.
UPDATE namespace_name SET next_check_at = now() + %(pause)s
WHERE name = ANY (ARRAY (
    SELECT name FROM namespace_name WHERE next_check_at <= now()
    ORDER BY next_check_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
RETURNING name, vector_store, keyword_index

-- name: checked
UPDATE namespace_name
SET next_check_at = CASE WHEN now() - retired_at < %(watched)s
                         THEN now() + greatest(%(pause)s, least(now() - retired_at, %(longest)s)) END
WHERE name = %(name)s
