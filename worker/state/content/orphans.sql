-- Objects that no node refers to.

-- name: announce
INSERT INTO content_stray (key, due_at) SELECT key, now() + %(grace)s FROM unnest(%(keys)s::text[]) AS k (key)

-- name: claim
DELETE FROM content_stray WHERE key = ANY (%(keys)s) AND NOT given_up

-- name: leave
INSERT INTO content_stray (key, due_at) SELECT key, now() FROM unnest(%(keys)s::text[]) AS k (key) ON CONFLICT DO NOTHING

-- name: expect
-- a run that deletes due objects: at most one per interval, and none if no objects are due
INSERT INTO upkeep (name, ran_at)
SELECT 'strays', now() WHERE EXISTS (SELECT FROM content_stray WHERE due_at <= now())
ON CONFLICT (name) DO UPDATE SET ran_at = now() WHERE upkeep.ran_at < now() - %(every)s

-- name: give_up
-- A transaction that makes a node refer to an object holds the lock of this row, and its commit deletes the row. An
-- object that a node refers to is never given up, even if it has a row here.
WITH page AS (
    SELECT key, EXISTS (SELECT FROM content_node n WHERE n.object_key = s.key) AS named
    FROM content_stray s WHERE due_at <= now() ORDER BY due_at, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), kept AS (
    DELETE FROM content_stray s USING page p WHERE s.key = p.key AND p.named
)
UPDATE content_stray s SET given_up = true FROM page p WHERE s.key = p.key AND NOT p.named RETURNING s.key

-- name: take
-- waits for a transaction that makes a node refer to one of them, even if its client no longer waits for it
UPDATE content_stray SET given_up = true, due_at = least(due_at, now()) WHERE key = ANY (%(keys)s) RETURNING key

-- name: forget
DELETE FROM content_stray WHERE key = ANY (%(keys)s)

-- name: postpone
UPDATE content_stray SET due_at = now() + %(pause)s WHERE key = ANY (%(keys)s)
