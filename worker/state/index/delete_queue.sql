-- The queue of indexes with vectors to delete; failed ones are delayed. A locked row is skipped.

-- name: postpone
-- twice as long after each further failure
WITH :free_upkeep
INSERT INTO search_index_upkeep AS u (index_id, failures, after)
SELECT %(index_id)s, 1, now() + %(first)s WHERE :is_free_upkeep
ON CONFLICT (index_id) DO UPDATE
SET failures = u.failures + 1, after = now() + least(%(longest)s, %(first)s * 2 ^ least(u.failures, 20))

-- name: requeue
-- after the others that wait
WITH :free_upkeep
INSERT INTO search_index_upkeep AS u (index_id, after) SELECT %(index_id)s, now() WHERE :is_free_upkeep
ON CONFLICT (index_id) DO UPDATE SET failures = 0, after = now()

-- name: done
DELETE FROM search_index_upkeep WHERE index_id = (
    SELECT index_id FROM search_index_upkeep WHERE index_id = %(index_id)s FOR UPDATE SKIP LOCKED)
