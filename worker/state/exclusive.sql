-- name: try_lock
SELECT pg_try_advisory_lock(%(class)s, hashtext(%(work)s))

-- name: unlock
SELECT pg_advisory_unlock(%(class)s, hashtext(%(work)s))

-- name: keep
SELECT
