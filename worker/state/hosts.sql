-- name: salt
SELECT id FROM installation

-- name: clock
SELECT extract(epoch FROM clock_timestamp())::float8

-- name: note
-- one row per start of a process; it may have been deleted while the process was stopped
INSERT INTO host_process (id, host_id, host_name, role, node, queues, release, needed_schema, settings, settings_digest,
    shown, reached, clock_seconds, clock_doubt_seconds)
VALUES (%(id)s, %(host_id)s, %(host_name)s, %(role)s, %(node)s, %(queues)s, %(release)s, %(needed_schema)s,
    %(settings)s, %(settings_digest)s, %(shown)s, %(reached)s, %(clock_seconds)s, %(clock_doubt_seconds)s)
ON CONFLICT (id) DO UPDATE SET seen_at = now(), reached = excluded.reached,
    clock_seconds = excluded.clock_seconds, clock_doubt_seconds = excluded.clock_doubt_seconds

-- name: end
-- no longer shown, but work waits for it as for a killed process, because it may be starting again
UPDATE host_process SET seen_at = least(seen_at, now() - %(alive)s) WHERE id = %(id)s

-- name: forget_old
DELETE FROM host_process WHERE id = ANY (ARRAY (
    SELECT id FROM host_process WHERE seen_at < now() - %(kept)s LIMIT 100 FOR UPDATE SKIP LOCKED))

-- name: alive
SELECT id, host_id, host_name, role, node, queues, release, needed_schema, settings_digest, shown, reached,
    clock_seconds, clock_doubt_seconds, extract(epoch FROM now() - seen_at)::float8 AS unseen_seconds
FROM host_process p WHERE :is_alive
ORDER BY host_name, host_id, role, node, id LIMIT %(limit)s

-- name: settings
-- most processes have equal settings, so one of each is read
SELECT d.digest, p.settings FROM unnest(%(digests)s::text[]) AS d (digest)
CROSS JOIN LATERAL (SELECT settings FROM host_process WHERE settings_digest = d.digest LIMIT 1) p

-- name: others
-- A worker that may do work that this one cannot: it takes from such a queue, its settings differ in one of the names,
-- and it did not leave this work to others. With `unset`, only names count that this worker lacks and the other one
-- has.
SELECT me.node, n.name AS setting
FROM host_process me JOIN host_process p ON p.id <> me.id AND p.role = 'worker' AND p.queues && %(queues)s::text[]
CROSS JOIN unnest(%(names)s::text[]) WITH ORDINALITY AS n (name, place)
WHERE me.id = %(me)s AND :is_alive
  AND p.settings ? n.name AND me.settings -> n.name <> p.settings -> n.name
  AND (NOT %(unset)s OR me.settings -> n.name = 'null'::jsonb)
  AND NOT EXISTS (SELECT FROM declined_work d WHERE d.work_id = %(work_id)s AND d.process_id = p.id)
ORDER BY (me.settings -> n.name = 'null'::jsonb) DESC, n.place LIMIT 1

-- name: decline
INSERT INTO declined_work (work_id, process_id) VALUES (%(work_id)s, %(me)s)
ON CONFLICT (work_id, process_id) DO UPDATE SET declined_at = now()

-- name: is_declined
SELECT :is_declined FROM (SELECT %(work_id)s::uuid AS id) t

-- name: forget_declined
DELETE FROM declined_work WHERE declined_at < now() - %(kept)s
