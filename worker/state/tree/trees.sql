-- name: lock
-- only one transaction at a time decides which trees exist
SELECT pg_advisory_xact_lock(hashtextextended('summary trees', 0)), :hurry

-- name: try_lock
SELECT pg_try_advisory_xact_lock(hashtextextended('summary trees', 0)), :hurry

-- name: adopt
-- A changed config takes over a tree that no tool wants any more. Its summaries answer until the new ones are complete.
WITH wanted AS (
    SELECT DISTINCT s.index_id, s.config -> 'raptor' AS config FROM search_tool s
    WHERE :tree_is_enabled AND (%(index_id)s::uuid IS NULL OR s.index_id = %(index_id)s)
      AND NOT EXISTS (SELECT FROM summary_tree t WHERE t.index_id = s.index_id AND t.config = s.config -> 'raptor')
), spare AS (
    SELECT DISTINCT ON (t.index_id) t.id, w.config
    FROM summary_tree t JOIN wanted w ON w.index_id = t.index_id WHERE NOT :is_wanted
), free AS (
    SELECT id FROM summary_tree WHERE id IN (SELECT id FROM spare) FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE summary_tree t
SET config = spare.config, is_full = true, :begin_again
FROM spare JOIN free USING (id) WHERE t.id = spare.id

-- name: insert
WITH missing AS MATERIALIZED (
    SELECT DISTINCT s.index_id, s.project_id, s.config -> 'raptor' AS config FROM search_tool s
    WHERE :tree_is_enabled AND (%(index_id)s::uuid IS NULL OR s.index_id = %(index_id)s)
      AND NOT EXISTS (SELECT FROM summary_tree t WHERE t.index_id = s.index_id AND t.config = s.config -> 'raptor')
), free AS (
    SELECT id FROM search_index WHERE id IN (SELECT index_id FROM missing) AND deleted_at IS NULL FOR KEY SHARE SKIP LOCKED
)
INSERT INTO summary_tree (id, index_id, project_id, config)
SELECT gen_random_uuid(), m.index_id, m.project_id, m.config FROM missing m JOIN free ON free.id = m.index_id
ON CONFLICT DO NOTHING RETURNING index_id

-- name: start_due
-- a run over the index ended `ready` since the tree was last built
UPDATE summary_tree t SET is_full = false, :begin_again
WHERE t.id = ANY (ARRAY (
    SELECT o.id FROM summary_tree o CROSS JOIN LATERAL (
        SELECT n.id, n.status FROM search_index_task n WHERE n.index_id = o.index_id
        ORDER BY n.created_at DESC LIMIT 1) newest
    WHERE (%(index_id)s::uuid IS NULL OR o.index_id = %(index_id)s) AND o.status NOT IN :open
      AND newest.status = 'ready' AND newest.id IS DISTINCT FROM o.index_task_id
    FOR NO KEY UPDATE OF o SKIP LOCKED))

-- name: any_over
SELECT :any_tree

-- name: unwanted
SELECT t.id FROM summary_tree t WHERE (%(index_id)s::uuid IS NULL OR t.index_id = %(index_id)s) AND NOT :is_wanted
FOR UPDATE SKIP LOCKED

-- name: bury_nodes
INSERT INTO tree_tombstone (id, index_id)
SELECT n.id, t.index_id FROM tree_node n JOIN summary_tree t ON t.id = n.tree_id WHERE t.id = ANY (%(ids)s)
ON CONFLICT DO NOTHING

-- name: forget_vectors
-- cached vectors of the summaries, only this project's
DELETE FROM embedding_cache e USING tree_node n, summary_tree t
WHERE n.tree_id = t.id AND t.id = ANY (%(ids)s) AND e.project_id = t.project_id
  AND e.text_hash = decode(substr(n.text_hash, 8), 'hex')

-- name: delete
DELETE FROM summary_tree WHERE id = ANY (%(ids)s)

-- name: any_open
SELECT EXISTS (SELECT FROM summary_tree WHERE status IN :open)

-- name: due_messages
-- A build waits until no task works on its index.
UPDATE summary_tree t SET sent_at = now()
WHERE t.id = ANY (ARRAY (
    SELECT t.id FROM summary_tree t
    WHERE t.status IN :open AND :unleased
      AND coalesce(NOT t.sent_at BETWEEN now() - %(patience)s AND now() + %(longest)s, true)
      AND NOT :waits_for_task
    ORDER BY t.sent_at NULLS FIRST LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED))
RETURNING t.id, t.index_id, t.done_summaries, t.expected_summaries

-- name: fairest
-- The next build that waits for no task and no provider. The project with the fewest active builds comes first; on a
-- tie, the one served longest ago.
WITH at_work AS MATERIALIZED (
    SELECT t.project_id, count(*) AS builds FROM summary_tree t
    WHERE t.status IN :open AND NOT :unleased GROUP BY t.project_id
)
SELECT t.id FROM summary_tree t JOIN search_index i ON i.id = t.index_id
LEFT JOIN at_work w ON w.project_id = t.project_id
LEFT JOIN project_turn r ON r.project_id = t.project_id AND r.work = 'tree'
WHERE t.status IN :open AND :unleased AND (coalesce(t.sent_at, now()) <= now() OR t.id = %(preferred)s)
  AND NOT :waits_for_task AND :is_in_reach AND NOT :is_declined
ORDER BY coalesce(w.builds, 0), coalesce(r.number, 0), t.id = %(preferred)s DESC, t.sent_at LIMIT 1
FOR SHARE OF t SKIP LOCKED

-- name: begin
UPDATE summary_tree t
SET status = 'indexing', owner = %(owner)s, lease_until = now() + %(lease)s, started_at = coalesce(t.started_at, now()),
    deaths = t.deaths + (t.owner IS NOT NULL)::int
WHERE t.id = (SELECT id FROM summary_tree WHERE id = %(tree_id)s FOR NO KEY UPDATE SKIP LOCKED) AND t.status IN :open
  AND :unleased AND NOT :waits_for_task
RETURNING t.id, t.index_id, t.project_id, t.config, t.epoch, t.stage, t.level, t.is_full, t.deaths, t.fits,
          t.tokens_in + t.tokens_out AS spent, t.built_at IS NOT NULL AND NOT t.is_full AS is_current

-- name: beat
-- only a running build has an owner
UPDATE summary_tree SET lease_until = now() + %(lease)s
WHERE id = %(tree_id)s AND owner = %(owner)s
-- as for a task, renewals do not wait for the disk
RETURNING set_config('synchronous_commit', 'off', true)

-- name: release
UPDATE summary_tree
SET owner = NULL, lease_until = NULL, sent_at = CASE WHEN %(delay)s > interval '0' THEN now() + %(delay)s END
WHERE id = %(tree_id)s AND owner = %(owner)s

-- name: hold
-- The lock under which a build writes rows. Cancel and delete wait for it, and the build then sees their changes.
SELECT FROM summary_tree WHERE id = %(tree_id)s AND epoch = %(epoch)s AND status = 'indexing' FOR NO KEY UPDATE

-- name: advance
UPDATE summary_tree
SET stage = %(stage)s, level = %(level)s, deaths = 0, faults = 0, warning = NULL,
    expected_summaries = greatest(expected_summaries, done_summaries + %(expected)s)
WHERE id = %(tree_id)s

-- name: note_fits
UPDATE summary_tree SET fits = fits || %(fits)s WHERE id = %(tree_id)s

-- name: paid
UPDATE summary_tree
SET requests = requests + %(requests)s, tokens_in = tokens_in + %(tokens_in)s, tokens_out = tokens_out + %(tokens_out)s
WHERE id = %(tree_id)s

-- name: count_done
UPDATE summary_tree
SET done_summaries = done_summaries + 1, deaths = 0, faults = 0, warning = NULL, failure_reason = %(skip_reason)s,
    failures = CASE WHEN %(skip_reason)s::text IS NULL THEN 0 WHEN failure_reason = %(skip_reason)s THEN failures + 1
                    ELSE 1 END
WHERE id = %(tree_id)s RETURNING failures

-- name: warn
UPDATE summary_tree SET warning = %(warning)s WHERE id = (
    SELECT id FROM summary_tree WHERE id = %(tree_id)s AND status IN :open FOR NO KEY UPDATE SKIP LOCKED)

-- name: count_fault
UPDATE summary_tree SET faults = faults + 1 WHERE id = %(tree_id)s AND status IN :open RETURNING faults

-- name: note_index_task
UPDATE summary_tree t SET index_task_id = (SELECT n.id FROM :newest_task_of_tree n) WHERE t.id = %(tree_id)s

-- name: request
-- joins an open build
UPDATE summary_tree t
SET rerun = t.rerun OR t.stage <> 'leaves', rerun_full = t.rerun_full OR %(full)s AND t.stage <> 'leaves',
    is_full = t.is_full OR %(full)s AND t.stage = 'leaves'
WHERE t.id = %(tree_id)s AND t.status IN :open

-- name: start
UPDATE summary_tree t SET is_full = %(full)s, :begin_again
WHERE t.id = %(tree_id)s AND t.status NOT IN :open

-- name: start_again
UPDATE summary_tree t SET is_full = t.rerun_full, :begin_again
WHERE t.id = %(tree_id)s AND t.rerun

-- name: stop
UPDATE summary_tree t
SET status = %(status)s, error = %(error)s, error_code = %(error_code)s, :ended,
    index_task_id = (SELECT n.id FROM :newest_task_of_tree n)
WHERE t.id = %(tree_id)s AND t.status IN :open RETURNING t.id

-- name: complete
UPDATE summary_tree t
SET status = 'indexed', :ended, built_at = CASE WHEN %(changed)s THEN now() ELSE coalesce(t.built_at, now()) END,
    skipped = coalesce((SELECT jsonb_object_agg(r.reason, r.number) FROM (
        SELECT n.skip_reason AS reason, count(*) AS number FROM tree_node n
        WHERE n.tree_id = t.id AND n.live AND n.skip_reason IS NOT NULL GROUP BY 1) r), '{}')
WHERE t.id = %(tree_id)s

-- name: of_tool
SELECT t.id, t.index_id, t.config, t.status, t.expected_summaries, t.done_summaries, t.skipped, t.tokens_in, t.tokens_out,
       t.requests, t.warning, t.error, t.error_code, t.built_at
FROM search_tool s JOIN summary_tree t ON t.index_id = s.index_id AND t.config = s.config -> 'raptor'
WHERE s.id = %(tool_id)s AND :tree_is_enabled

-- name: due_tombstones
SELECT i.id AS index_id, i.namespace, i.vector_store, i.keyword_index,
       (i.settings -> 'embedder' ->> 'dimensions')::int AS dimensions, d.ids, coalesce(d.final, '{}') AS final
FROM search_index i CROSS JOIN LATERAL (
    SELECT array_agg(e.id) AS ids, array_agg(e.id) FILTER (WHERE e.final) AS final FROM (
        SELECT c.id, c.created_at < now() - %(late)s AS final FROM tree_tombstone c
        WHERE c.index_id = i.id AND (c.deleted_at IS NULL OR c.created_at < now() - %(late)s)
        ORDER BY c.created_at LIMIT %(limit)s) e) d
WHERE i.id = ANY (ARRAY (
    SELECT DISTINCT c.index_id FROM tree_tombstone c
    WHERE c.deleted_at IS NULL OR c.created_at < now() - %(late)s LIMIT 20)) AND i.deleted_at IS NULL

-- name: confirm_deleted
UPDATE tree_tombstone SET deleted_at = now() WHERE id = ANY (%(ids)s) AND deleted_at IS NULL

-- name: purge_tombstones
DELETE FROM tree_tombstone WHERE id = ANY (%(ids)s)
