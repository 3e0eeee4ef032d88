-- Server processes behind our own connections.

-- name: reap
-- COPY FROM STDIN and unread results wait for the client. A statement that computes, or waits for a lock or the disk,
-- does not. Observations are kept: only a process without progress since its first observation is ended.
WITH waiting AS (
    SELECT a.pid, concat_ws(' ', a.backend_start, a.query_start, a.wait_event, c.bytes_processed) AS state
    FROM pg_stat_activity a LEFT JOIN pg_stat_progress_copy c ON c.pid = a.pid
    WHERE a.datname = current_database() AND a.application_name = ANY (%(applications)s)
      AND a.state = 'active' AND a.wait_event_type = 'Client'
), gone AS (
    DELETE FROM silent_backend WHERE pid IN (
        SELECT pid FROM silent_backend s WHERE NOT EXISTS (SELECT FROM waiting w WHERE w.pid = s.pid)
        FOR UPDATE SKIP LOCKED)
), seen AS (
    INSERT INTO silent_backend AS s (pid, state, since) SELECT pid, state, clock_timestamp() FROM waiting
    ON CONFLICT (pid) DO UPDATE
    SET state = excluded.state, since = CASE WHEN s.state = excluded.state THEN least(s.since, excluded.since)
                                             ELSE excluded.since END
    RETURNING pid, since
)
SELECT pid FROM seen WHERE CASE WHEN since < clock_timestamp() - %(silence)s THEN pg_terminate_backend(pid) END

-- name: end_blocking
-- Our sessions whose client stopped in a transaction that the server does not time out. Other sessions wait for their
-- locks only for moments, so a session that blocked one stays recorded until its transaction ends.
WITH blocking AS (
    SELECT DISTINCT b.pid FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
    WHERE w.datname = current_database() AND w.wait_event_type = 'Lock'
), idle AS (
    SELECT a.pid, concat_ws(' ', a.backend_start, a.xact_start) AS state FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name = ANY (%(applications)s)
      AND a.state LIKE 'idle in transaction%%' AND a.state_change < clock_timestamp() - %(idle)s
), gone AS (
    DELETE FROM blocking_backend WHERE pid IN (
        SELECT pid FROM blocking_backend b WHERE NOT EXISTS (SELECT FROM idle i WHERE i.pid = b.pid)
        FOR UPDATE SKIP LOCKED)
), seen AS (
    INSERT INTO blocking_backend AS b (pid, state, since)
    SELECT i.pid, i.state, clock_timestamp() FROM idle i
    WHERE i.pid IN (SELECT pid FROM blocking)
       OR EXISTS (SELECT FROM blocking_backend n WHERE n.pid = i.pid AND n.state = i.state)
    ON CONFLICT (pid) DO UPDATE
    SET state = excluded.state, since = CASE WHEN b.state = excluded.state THEN least(b.since, excluded.since)
                                             ELSE excluded.since END
    RETURNING pid, since
)
SELECT pid FROM seen WHERE CASE WHEN since < clock_timestamp() - %(patience)s THEN pg_terminate_backend(pid) END

-- name: blockers
-- Sessions of any role that block others, or that are idle and hold locks of our tables. Without the right to see
-- another role's sessions, only the sessions that wait for them are known.
WITH waiting AS (
    SELECT w.pid, b.pid AS blocker FROM pg_stat_activity w
    CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
    WHERE w.datname = current_database() AND w.wait_event_type = 'Lock'
), holding AS (
    SELECT l.pid, string_agg(DISTINCT c.relname, ', ' ORDER BY c.relname) AS tables
    FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.granted AND l.mode <> 'AccessShareLock' AND c.relkind = 'r'
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'search_index'::regclass)
    GROUP BY l.pid
)
SELECT a.pid, a.application_name AS application, a.xact_start AS since, h.tables,
       (SELECT count(DISTINCT w.pid) FROM waiting w WHERE w.blocker = a.pid) AS waiting
FROM pg_stat_activity a LEFT JOIN holding h ON h.pid = a.pid
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
  AND coalesce(a.xact_start < clock_timestamp() - %(patience)s, true)
  AND (a.pid IN (SELECT blocker FROM waiting) OR h.pid IS NOT NULL AND a.state LIKE 'idle in transaction%%')
ORDER BY a.xact_start NULLS LAST, a.pid LIMIT %(limit)s

-- name: take_time
SELECT set_config('idle_in_transaction_session_timeout', '5min', true)
