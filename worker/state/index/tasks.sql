-- name: create
-- Counts that describe the index are copied from the previous task. clock_timestamp() instead of now(),
-- because time passes while a transaction waits for its locks.
INSERT INTO search_index_task (id, tool_id, index_id, folder_node_id, kind, "full", allow_removals, created_at,
    total_files, indexed_files, skipped_files, failed_files, total_chunks, searchable_files, vector_chunks, vectors_due,
    text_left, document_left, image_left, ignored, listing_warning,
    max_cost_tokens, spent_tokens, request_id, total_bytes, done_bytes, paths, refresh_seconds, counted_at)
SELECT %(id)s, %(tool_id)s, %(index_id)s, %(folder_node_id)s, %(kind)s, %(full)s, %(allow_removals)s,
    -- keeps the newest task recognizable even if the clock was set back
    greatest(clock_timestamp(), l.created_at + interval '1 microsecond'),
    coalesce(l.total_files, 0), coalesce(l.indexed_files, 0), coalesce(l.skipped_files, 0), coalesce(l.failed_files, 0),
    coalesce(l.total_chunks, 0), coalesce(l.searchable_files, l.indexed_files, 0),
    coalesce(l.vector_chunks, l.total_chunks, 0), coalesce(l.vectors_due, 0),
    coalesce(l.text_left, 0), coalesce(l.document_left, 0), coalesce(l.image_left, 0), coalesce(l.ignored, '{}'), l.listing_warning,
    -- the smallest limit of the requesting tools; the task's tool replaces deleted ones
    (SELECT min((CASE WHEN s.next_index_id = %(index_id)s THEN s.next_config ELSE s.config END ->> 'max_cost_tokens')::bigint)
     FROM search_tool s
     WHERE s.id = ANY (%(asking)s::uuid[])
        OR s.id = %(tool_id)s AND NOT EXISTS (SELECT FROM search_tool a WHERE a.id = ANY (%(asking)s::uuid[]))),
    -- a run that follows one stopped by its limit keeps its count, so that it pays nothing before the limit is raised
    CASE WHEN l.over_cost THEN l.spent_tokens ELSE 0 END,
    %(request_id)s, coalesce(l.total_bytes, 0), coalesce(l.done_bytes, 0),
    -- after a run that left work undone, the whole folder is listed
    CASE WHEN l.status = 'ready' AND l.held_removals = 0 THEN %(paths)s::text[] END,
    -- a run over some paths adds to the counts that are copied, and does not count all files again
    coalesce(l.refresh_seconds, 0), CASE WHEN l.counted_at IS NOT NULL AND %(paths)s::text[] IS NOT NULL THEN now() END
FROM (SELECT) AS new LEFT JOIN (SELECT * FROM :newest_task) l ON true
ON CONFLICT (index_id) WHERE status IN :open DO NOTHING
RETURNING id

-- name: forget_old
DELETE FROM search_index_task
WHERE id IN (SELECT id FROM search_index_task WHERE index_id = %(index_id)s ORDER BY created_at DESC OFFSET %(kept)s)

-- name: request_rerun
UPDATE search_index_task t
SET rerun = true, rerun_full = rerun_full OR %(full)s, rerun_allow_removals = rerun_allow_removals OR %(allow_removals)s,
    rerun_request_id = %(request_id)s, rerun_paths = :rerun_paths_with_more,
    rerun_tool_ids = :rerun_tool_ids_with_more
WHERE index_id = %(index_id)s AND status IN :open

-- name: widen
-- lets the open task list the whole folder, or one that follows it
UPDATE search_index_task t
SET paths = CASE WHEN status = 'indexing' THEN paths END, rerun_paths = NULL,
    rerun = rerun OR status = 'indexing' AND paths IS NOT NULL, rerun_tool_ids = :rerun_tool_ids_with_more
WHERE index_id = %(index_id)s AND status IN :open AND (paths IS NOT NULL OR rerun_paths IS NOT NULL)

-- name: request_rerun_over_nodes
-- A task that has not begun takes up the edit. Its row is still written, so that it begins after the edit commits. A
-- tool with auto_reindex requests its own run, once for many edits.
WITH edited AS (
    SELECT t.id, (:edited_nodes) AS paths, EXISTS (
        SELECT FROM search_tool s
        WHERE i.id IN (s.index_id, s.next_index_id) AND (:config_over) ->> 'auto_reindex' = 'true') AS follows
    FROM search_index_task t JOIN search_index i ON i.id = t.index_id
    JOIN content_node root ON root.project_id = i.project_id AND root.id = i.source ->> 'node_id'
    WHERE t.status IN :open AND i.project_id = %(project_id)s AND i.source ->> 'kind' = 'nodes'
      AND EXISTS (SELECT FROM unnest(%(id_paths)s::text[]) AS e (path) WHERE :touches_root)
)
UPDATE search_index_task t
SET rerun = t.rerun OR t.status = 'indexing' AND NOT follows, rerun_request_id = %(request_id)s,
    paths = CASE WHEN t.status = 'indexing' OR follows THEN t.paths
                 ELSE joined_paths(t.paths, edited.paths, %(most_paths)s) END,
    rerun_paths = CASE WHEN t.status <> 'indexing' OR follows THEN t.rerun_paths
                       WHEN NOT t.rerun THEN edited.paths
                       ELSE joined_paths(t.rerun_paths, edited.paths, %(most_paths)s) END,
    rerun_tool_ids = CASE WHEN t.status <> 'indexing' OR follows OR t.tool_id = ANY (t.rerun_tool_ids) THEN t.rerun_tool_ids
                          ELSE t.rerun_tool_ids || t.tool_id END
FROM edited WHERE t.id = edited.id

-- name: newest
SELECT id, status, error, held_removals, finished_at, searchable_at IS NOT NULL AND NOT rerun AS has_words
FROM :newest_task

-- name: lock_index
-- Locks the index before the task, in the same order as creating and deleting tools: two orders could deadlock. Only
-- for the first slice, because workers that finish files make it wait.
SELECT FROM search_index i JOIN search_index_task t ON t.index_id = i.id
WHERE t.id = %(task_id)s AND t.epoch IS NULL FOR NO KEY UPDATE OF i

-- name: hurry
-- another transaction that locks the task lists or stops it, so no worker should wait for it
SELECT set_config('lock_timeout', %(patience)s, true)

-- name: begin_plan
UPDATE search_index_task t
SET plan_owner = %(owner)s, plan_until = now() + %(lease)s, status = 'indexing', started_at = coalesce(started_at, now()),
    -- an owner that did not release the listing died during it, unless Postgres restarted since the last renewal of the
    -- lease
    plan_dead = CASE WHEN plan_owner IS NOT NULL AND plan_until - %(lease)s > pg_postmaster_start_time()
                     THEN array_append(plan_dead, plan_owner) ELSE plan_dead END
WHERE id = %(task_id)s AND status IN :open AND listing
  AND NOT EXISTS (SELECT FROM search_index i WHERE i.id = t.index_id AND i.stopping = t.id)
  AND (plan_until IS NULL OR plan_until < now()
       AND now() NOT BETWEEN pg_postmaster_start_time() AND pg_postmaster_start_time() + interval '10 s')
RETURNING id, index_id, tool_id, request_id, list_cursor, epoch, allow_removals, matched, paths,
          cardinality(plan_dead) AS deaths, fault

-- name: raise_epoch
WITH raised AS (
    UPDATE search_index SET epoch = epoch + 1 WHERE id = %(index_id)s AND deleted_at IS NULL RETURNING epoch
)
UPDATE search_index_task SET epoch = raised.epoch FROM raised WHERE id = %(task_id)s RETURNING search_index_task.epoch

-- name: save_cursor
-- Saves the ignored counts together with their page: a repeated slice counts nothing twice. A new listing starts at 0.
UPDATE search_index_task t
SET list_cursor = %(cursor)s, unlisted = t.unlisted || %(unlisted)s::bytea[],
    matched = CASE WHEN %(first)s THEN '{}' ELSE t.matched END || %(matched)s::text[],
    listed_pages = n.pages, most_pages = greatest(t.most_pages, n.pages),
    plan_dead = CASE WHEN n.pages > t.most_pages THEN '{}' ELSE t.plan_dead END,
    fault = CASE WHEN n.pages > t.most_pages THEN NULL ELSE t.fault END,
    ignored = CASE WHEN t.paths IS NOT NULL THEN t.ignored ELSE (
        SELECT coalesce(jsonb_object_agg(rule, number), '{}') FROM (
            SELECT rule, sum(number::bigint) AS number FROM (
                SELECT * FROM jsonb_each_text(t.ignored) WHERE NOT %(first)s
                UNION ALL SELECT * FROM jsonb_each_text(%(ignored)s)) AS e (rule, number)
            GROUP BY rule) AS s) END
FROM search_index i, search_index_task o
CROSS JOIN LATERAL (SELECT CASE WHEN %(first)s THEN 1 ELSE o.listed_pages + 1 END AS pages) n
WHERE t.id = %(task_id)s AND t.plan_owner = %(owner)s AND t.status = 'indexing' AND i.id = t.index_id AND i.epoch = t.epoch
  AND o.id = t.id

-- name: end_listing
UPDATE search_index_task
SET listing = false, plan_owner = NULL, plan_until = NULL, held_removals = %(held)s,
    warning = coalesce(%(warning)s, warning),
    -- a run over some paths adds to the counts that were copied; after a whole listing all files are counted
    counted_at = CASE WHEN %(keys)s::bytea[] IS NOT NULL THEN counted_at END,
    -- a few paths say nothing about the whole folder
    listing_warning = CASE WHEN paths IS NULL THEN %(listing_warning)s ELSE listing_warning END
WHERE id = %(task_id)s

-- name: release_plan
-- an owner that was wrongly counted as dead corrects that here
UPDATE search_index_task
SET plan_dead = array_remove(plan_dead, %(owner)s), plan_owner = CASE WHEN plan_owner <> %(owner)s THEN plan_owner END,
    plan_until = CASE WHEN plan_owner <> %(owner)s THEN plan_until END
WHERE id = %(task_id)s AND (plan_owner = %(owner)s OR %(owner)s = ANY (plan_dead))

-- name: note_fault
UPDATE search_index_task SET fault = %(fault)s
WHERE id = (SELECT id FROM search_index_task WHERE id = %(task_id)s AND status = 'indexing' FOR NO KEY UPDATE SKIP LOCKED)

-- name: spend
WITH before AS (
    SELECT id, coalesce(max_cost_tokens - spent_tokens, %(tokens)s) AS left_tokens FROM search_index_task
    WHERE id = %(task_id)s AND status = 'indexing' FOR NO KEY UPDATE
)
UPDATE search_index_task t
SET spent_tokens = t.spent_tokens + CASE WHEN b.left_tokens >= %(tokens)s THEN %(tokens)s ELSE 0 END,
    over_cost = t.over_cost OR b.left_tokens < %(tokens)s
FROM before b WHERE t.id = b.id
RETURNING b.left_tokens

-- name: give_back
UPDATE search_index_task SET spent_tokens = greatest(spent_tokens - %(tokens)s, 0) WHERE id = %(task_id)s

-- name: note_cut_texts
UPDATE search_index_task SET cut_texts = true
WHERE index_id = %(index_id)s AND epoch = %(epoch)s AND status = 'indexing' AND NOT cut_texts

-- name: count_fault
-- slices that fail at the same time count once
UPDATE search_index_task
SET fault = %(fault)s, faults = faults + counts::int, fault_at = CASE WHEN counts THEN now() ELSE fault_at END
FROM (SELECT coalesce(fault_at NOT BETWEEN now() - %(rest)s AND now(), true) AS counts
      FROM search_index_task WHERE id = %(task_id)s) c
WHERE id = %(task_id)s AND status = 'indexing'
RETURNING faults

-- name: running
SELECT t.id, t.index_id, t.tool_id, t.request_id, t.epoch, t.total_files,
       t.indexed_files + t.skipped_files + t.failed_files AS done_files, :is_small AS is_small, t.max_cost_tokens,
       CASE WHEN NOT t.listing THEN t.total_bytes - t.done_bytes END AS left_bytes
FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.id = %(task_id)s AND t.status = 'indexing' AND i.epoch = t.epoch AND i.deleted_at IS NULL

-- name: failure
SELECT error_code, error FROM search_index_task WHERE id = %(task_id)s AND status = 'error'

-- name: beat
-- Renewals do not wait for the disk: while it is slow, all leases would expire at once. If the server crashes and loses
-- the latest ones, every worker gets time when it is back.
WITH held AS (
    -- skips a lease that a claim is renewing at the moment
    UPDATE file_lease SET until = now() + %(lease)s
    WHERE owner IN (SELECT owner FROM file_lease WHERE owner = %(owner)s FOR NO KEY UPDATE SKIP LOCKED)
), files AS (
    UPDATE search_index_file SET parsing = 0
    -- Skips rows that are being finished or cancelled: they no longer need it, and waiting for them could deadlock.
    WHERE NOT %(parsing)s AND id IN (
        SELECT f.id FROM search_index_file f JOIN search_index_task t ON t.index_id = f.index_id AND t.id = %(task_id)s
        WHERE f.lease_owner = %(owner)s AND f.status = 'indexing' AND f.parsing > 0 FOR NO KEY UPDATE OF f SKIP LOCKED)
), plan AS (
    UPDATE search_index_task SET plan_until = now() + %(lease)s WHERE plan_owner = %(owner)s
)
SELECT set_config('synchronous_commit', 'off', true)
FROM search_index_task t JOIN search_index i ON i.id = t.index_id
WHERE t.id = %(task_id)s AND t.status = 'indexing' AND i.epoch = t.epoch

-- name: lock_task
SELECT FROM search_index_task WHERE id = %(task_id)s FOR NO KEY UPDATE SKIP LOCKED

-- name: await_task
SELECT FROM search_index_task WHERE id = %(task_id)s FOR NO KEY UPDATE

-- name: complete
SELECT t.refresh_seconds, t.paths IS NOT NULL AND t.counted_at IS NOT NULL
FROM search_index_task t
WHERE t.id = %(task_id)s AND :is_done

-- name: close
UPDATE search_index_task t
SET status = CASE WHEN o.has_failed THEN 'error' ELSE 'ready' END,
    error = CASE WHEN o.has_failed THEN (
        SELECT format('No file could be indexed: %%s failed. %%s: %%s', t.failed_files, f.path, f.message)
        FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'failed' ORDER BY f.path LIMIT 1) END,
    error_code = CASE WHEN o.has_failed THEN 'no_file_indexed' END,
    progress = CASE WHEN o.has_failed THEN t.progress ELSE 1 END, searchable_at = coalesce(t.searchable_at, now()),
    -- the task no longer waits
    warning = CASE WHEN t.held_removals > 0 THEN t.warning END,
    finished_at = now()
FROM (SELECT failed_files > 0 AND total_chunks = 0 AND NOT over_cost AS has_failed
      FROM search_index_task WHERE id = %(task_id)s) o
WHERE t.id = %(task_id)s AND :is_done
RETURNING :ended_task

-- name: open_task
SELECT id FROM search_index_task WHERE index_id = %(index_id)s AND status IN :open FOR UPDATE

-- name: shut_out
-- from now on nothing that workers still do for the index is recorded
-- unless a cancel did so before
UPDATE search_index SET epoch = epoch + CASE WHEN stopping = %(task_id)s THEN 0 ELSE 1 END, stopping = NULL
WHERE id = %(index_id)s

-- name: stop
UPDATE search_index_task t
SET status = %(status)s, error = %(error)s, error_code = %(error_code)s, finished_at = now(),
    plan_owner = NULL, plan_until = NULL,
    warning = CASE WHEN held_removals > 0 THEN warning END,
    -- a user who cancels wants no follow-up
    rerun = rerun AND %(status)s <> 'cancelled'
WHERE id = %(task_id)s
RETURNING :ended_task

-- name: listing_ended
-- whether the last run listed the whole folder
SELECT NOT listing FROM :newest_task

-- name: retry_files
-- Failed files, and files that a task left open: never live, live with an empty stamp, or without all their vectors. A
-- failed file is read again, because the user may have repaired it, even if only its vectors were refused.
UPDATE search_index_file
SET task_id = %(id)s,
    work = CASE WHEN status = 'pending' THEN work
                WHEN status = 'indexed' AND (awaits_vectors OR stamp <> '') THEN 'path' ELSE 'read' END,
    awaits_vectors = awaits_vectors AND status <> 'failed',
    -- what the listing reported about a file may have been fixed since
    listed_reason = CASE WHEN status = 'failed' THEN NULL ELSE listed_reason END,
    :set_pending, attempts = 0, crashes = 0, parsing = 0
WHERE index_id = %(index_id)s AND (status IN ('pending', 'failed') OR status = 'indexed' AND (stamp = '' OR lost))

-- name: repair_files
-- Live files without all their vectors, or with wrong counts. After a run that did not end well, files wait until
-- somebody starts the next one, which takes up these too.
UPDATE search_index_file
SET task_id = %(id)s, work = CASE WHEN live_fingerprint <> '' THEN 'path' ELSE 'read' END,
    :set_pending, attempts = 0, crashes = 0, parsing = 0
WHERE index_id = %(index_id)s AND status = 'indexed' AND (lost OR coalesce(live_fingerprint, '') = '')
  AND 'ready' = (SELECT status FROM :newest_task)

-- name: begin_retry
-- removals held by the last listing stay held, because the folder is not listed again
UPDATE search_index_task t
SET status = 'indexing', listing = false, started_at = now(), held_removals = l.held_removals,
    warning = CASE WHEN l.held_removals > 0 THEN l.warning END
FROM (SELECT held_removals, warning FROM search_index_task
      WHERE index_id = %(index_id)s AND id <> %(id)s ORDER BY created_at DESC LIMIT 1) l
WHERE t.id = %(id)s

-- name: warn
-- a warning about held removals stays: it asks for a decision, and waiting does not
UPDATE search_index_task SET warning = %(warning)s
WHERE id = ANY (ARRAY (
    SELECT id FROM search_index_task WHERE id = ANY (%(task_ids)s) AND status = 'indexing' AND held_removals = 0
    FOR NO KEY UPDATE SKIP LOCKED))

-- name: clear_warning
UPDATE search_index_task
SET warning = CASE WHEN held_removals > 0 THEN warning END, faults = 0, fault = NULL
WHERE id = (
    SELECT id FROM search_index_task
    WHERE id = %(task_id)s AND status = 'indexing' AND (faults > 0 OR held_removals = 0 AND warning IS NOT NULL)
    FOR NO KEY UPDATE SKIP LOCKED)

-- name: bring_back
-- times further ahead than ever set mean that Postgres' clock was set back; nothing should wait until then
UPDATE search_index_task
SET plan_until = least(plan_until, now()), counted_at = least(counted_at, now()), sent_at = least(sent_at, now()),
    moved_at = least(moved_at, now())
WHERE id IN (
    SELECT id FROM search_index_task
    WHERE status IN :open
      AND greatest(plan_until, counted_at, sent_at - %(longest)s, moved_at) > now() + interval '1 min'
    FOR NO KEY UPDATE SKIP LOCKED)

-- name: done
-- running tasks without remaining work; in random order, so that one that cannot be closed delays no others
SELECT t.id, t.index_id FROM search_index_task t JOIN search_index i ON i.id = t.index_id AND i.epoch = t.epoch
WHERE :is_done
ORDER BY random() LIMIT %(limit)s

-- name: note_work
-- written at most every ten seconds, although the sweep asks every second
UPDATE search_index_task t SET moved_at = now()
WHERE id IN (
    SELECT t.id FROM search_index_task t
    WHERE t.status IN :open AND coalesce(t.moved_at, '-infinity') < now() - interval '10 s'
      AND (t.plan_until > now()
           OR EXISTS (SELECT FROM search_index_file f JOIN file_lease l ON l.owner = f.lease_owner AND l.until > now()
                      WHERE f.index_id = t.index_id AND f.status = 'indexing'))
    FOR NO KEY UPDATE OF t SKIP LOCKED)

-- name: stalled
-- a warning explains the wait as long as the task's messages continue; held removals explain nothing
UPDATE search_index_task t SET moved_at = now()
WHERE id = ANY (ARRAY (
    SELECT t.id FROM search_index_task t
    WHERE t.status IN :open AND coalesce(t.moved_at, t.created_at) < now() - %(patience)s
      AND (t.warning IS NULL OR t.warning = %(busy)s OR t.held_removals > 0
           OR coalesce(t.sent_at, t.created_at) < now() - %(patience)s)
      AND coalesce(t.sent_at, t.created_at) <= now()
    LIMIT %(limit)s FOR NO KEY UPDATE OF t SKIP LOCKED))
RETURNING t.id, t.tool_id, t.index_id, t.status, t.listing, t.plan_until, t.sent_at, t.counted_at
