-- Server processes behind our own connections.

-- name: reap
-- COPY FROM STDIN and results that are not read wait for the client. A statement that computes, or waits for a lock or
-- the disk, does not. Observations are kept: only a process without progress since its first observation is ended.
WITH waiting AS (
    SELECT a.pid, concat_ws(' ', a.backend_start, a.query_start, a.wait_event, c.bytes_processed) AS state
    FROM pg_stat_activity a LEFT JOIN pg_stat_progress_copy c ON c.pid = a.pid
    WHERE a.datname = current_database() AND a.application_name = %(application)s
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

-- name: take_time
SELECT set_config('idle_in_transaction_session_timeout', '5min', true)
