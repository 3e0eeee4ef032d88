-- name: try_lock
SELECT pg_try_advisory_lock(%(lock)s)

-- name: be_patient
SET lock_timeout = 0

-- name: be_brief
RESET lock_timeout

-- name: unfinished
-- indexes with these names whose build was interrupted
SELECT c.relname FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
WHERE NOT x.indisvalid AND c.relname = ANY (%(names)s) AND c.relnamespace = current_schema()::regnamespace
