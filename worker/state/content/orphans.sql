-- Objects that no node names.

-- name: announce
INSERT INTO content_stray (key, due_at) SELECT key, now() + %(grace)s FROM unnest(%(keys)s::text[]) AS k (key)

-- name: claim
DELETE FROM content_stray WHERE key = ANY (%(keys)s) AND NOT given_up

-- name: leave
INSERT INTO content_stray (key, due_at) SELECT key, now() FROM unnest(%(keys)s::text[]) AS k (key) ON CONFLICT DO NOTHING

-- name: expect
-- a run that deletes those that are due, once in so long a time, and none where there are none
INSERT INTO upkeep (name, ran_at)
SELECT 'strays', now() WHERE EXISTS (SELECT FROM content_stray WHERE due_at <= now())
ON CONFLICT (name) DO UPDATE SET ran_at = now() WHERE upkeep.ran_at < now() - %(every)s

-- name: give_up
-- what a transaction makes a node name this moment is locked by it, or gone when its lock is; and nothing a node names is
-- given up, however it came here
WITH page AS (
    SELECT key, EXISTS (SELECT FROM content_node n WHERE n.object_key = s.key) AS named
    FROM content_stray s WHERE due_at <= now() ORDER BY due_at, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), kept AS (
    DELETE FROM content_stray s USING page p WHERE s.key = p.key AND p.named
)
UPDATE content_stray s SET given_up = true FROM page p WHERE s.key = p.key AND NOT p.named RETURNING s.key

-- name: take
-- waits for a transaction that makes a node name one of them, even if nobody waits for its end any more
UPDATE content_stray SET given_up = true, due_at = least(due_at, now()) WHERE key = ANY (%(keys)s) RETURNING key

-- name: forget
DELETE FROM content_stray WHERE key = ANY (%(keys)s)

-- name: postpone
UPDATE content_stray SET due_at = now() + %(pause)s WHERE key = ANY (%(keys)s)
