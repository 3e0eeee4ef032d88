-- name: claim
-- Files without their words, or those that only lack vectors. Small files first. Limited by count and by bytes, or by
-- vectors; the first file is taken whatever its size, and a suspect file alone.
-- Excludes a file of more than twice the size of all smaller ones together, so that they do not wait for it. A claim
-- takes at most half of the last files, so that one worker does not hold all while others are idle.
WITH held AS (
    INSERT INTO file_lease (owner, until, index_id) VALUES (%(owner)s, now() + %(lease)s, %(index_id)s)
    ON CONFLICT (owner) DO UPDATE SET until = excluded.until, index_id = excluded.index_id
), locked AS (
    SELECT id, size_bytes, suspect, patch_pending, CASE WHEN %(vectors)s THEN vectors_due ELSE size_bytes END AS amount
    FROM search_index_file
    -- starts after the previous claim: while an old snapshot is open, dead index entries pile up before that place
    WHERE index_id = %(index_id)s AND status = 'pending' AND awaits_vectors <= %(vectors)s
      AND (awaits_vectors, size_bytes, id) > (%(vectors)s, %(after_size)s, %(after)s) AND size_bytes <= %(max_size)s
    ORDER BY awaits_vectors, size_bytes, id LIMIT %(files)s FOR UPDATE SKIP LOCKED
), summed AS (
    SELECT *, row_number() OVER w AS place, sum(amount) OVER w - amount AS before,
           CASE WHEN count(*) OVER () < %(files)s
                THEN least(%(most)s, greatest(sum(amount) OVER () / 2, %(least)s)) ELSE %(most)s END AS room
    FROM locked WINDOW w AS (ORDER BY suspect, size_bytes, id)
), fitting AS (
    SELECT id, patch_pending, bool_and(
        place = 1 OR NOT suspect AND before < room AND amount <= greatest(2 * before, %(small)s)
    ) OVER (ORDER BY place) AS fits
    FROM summed
), chosen AS (
    SELECT id, patch_pending, count(*) OVER () AS together FROM fitting WHERE fits
)
UPDATE search_index_file f
SET status = 'indexing', lease_owner = %(owner)s, attempts = attempts + 1,
    generation = nextval('claim_generation'),
    patch_pending = f.patch_pending
        OR f.live_chunks > 0 AND (f.path, f.id_path) IS DISTINCT FROM (f.live_path, f.live_id_path),
    -- another task's provider usage does not count for this one
    embedded_chunks = CASE WHEN f.task_id = %(task_id)s THEN f.embedded_chunks ELSE 0 END,
    tokens = CASE WHEN f.task_id = %(task_id)s THEN f.tokens ELSE 0 END,
    task_id = %(task_id)s, parsing = s.together
FROM chosen s, search_index_task t, search_index i
WHERE f.id = s.id
  AND t.id = %(task_id)s AND t.status = 'indexing' AND i.id = t.index_id AND i.epoch = t.epoch
-- whether a patch was pending before this claim
RETURNING :claimed, s.patch_pending

-- name: claim_on
-- files that this transaction finished with only their words stay with their worker
UPDATE search_index_file f
SET status = 'indexing', lease_owner = %(owner)s, attempts = attempts + 1, generation = nextval('claim_generation')
WHERE id = ANY (%(ids)s) AND status = 'pending' AND awaits_vectors
RETURNING :claimed, f.patch_pending

-- name: are_held
SELECT :files_are_held FROM search_index_task t WHERE t.id = %(task_id)s

-- name: count_pending
SELECT count(*) FROM (
    SELECT FROM search_index_file WHERE index_id = %(index_id)s AND status = 'pending'
    ORDER BY awaits_vectors, size_bytes, id LIMIT %(most)s) p

-- name: any_work
SELECT EXISTS (SELECT FROM file_lease WHERE until > now())

-- name: open_files
SELECT format('%%s %%s', status, work), count(*) FROM search_index_file
WHERE index_id = %(index_id)s AND status IN :open GROUP BY 1 ORDER BY 1

-- name: release
-- claimed files that are not finished are released without counting an attempt
UPDATE search_index_file
SET status = 'pending', lease_owner = NULL, attempts = attempts - 1, parsing = 0
WHERE id IN (
    SELECT id FROM search_index_file WHERE lease_owner = %(owner)s AND status = 'indexing' FOR UPDATE SKIP LOCKED)

-- name: hold_epoch
SELECT epoch, :hurry FROM search_index WHERE id = %(index_id)s AND deleted_at IS NULL FOR SHARE

-- name: prefer_indexes
SELECT :avoid_table_scans

-- name: still_claimed
-- Files whose claim of this generation still holds. A file has an owner only while it is worked on. The status is not
-- compared: the plan would read all rows that this worker holds or recently held instead of finding files by their ids.
SELECT f.id FROM unnest(%(ids)s::uuid[], %(generations)s::bigint[]) AS c (file_id, generation) CROSS JOIN :file_by_id
WHERE f.generation = c.generation AND f.lease_owner = %(owner)s

-- name: stage_outcomes
CREATE TEMP TABLE IF NOT EXISTS staged_outcome (
    id uuid, generation bigint, status text, reason text, message text, type text, stamp text, fingerprint text, chunks integer,
    live_tokens bigint, embedded boolean, embedded_chunks integer, reused_chunks integer, tokens bigint, timings jsonb,
    mime text, is_binary boolean, language text, words_language text, properties jsonb,
    note text, vectors_due integer, stated jsonb
) ON COMMIT DELETE ROWS

-- name: copy_outcomes
COPY staged_outcome FROM STDIN

-- name: finish
-- A failed file keeps its live content; every other outcome replaces it. A file whose words are live without all its
-- vectors waits for its next claim. A draft of an earlier claim by the same owner is outdated: the file was listed and
-- claimed again while the draft waited for its request.
WITH before AS (
    SELECT :counted FROM search_index_file f JOIN staged_outcome o ON o.id = f.id
), after AS (
    UPDATE search_index_file f
    SET status = o.status, reason = o.reason, message = o.message, type = coalesce(o.type, f.type),
        stamp = coalesce(o.stamp, ''), work = CASE WHEN o.status = 'pending' THEN 'path' ELSE 'read' END,
        lease_owner = NULL, attempts = CASE WHEN o.status = 'pending' THEN 0 ELSE f.attempts END,
        suspect = false, crashes = 0, parsing = 0,
        -- if the file failed, a patch from an earlier claim may still arrive
        patch_pending = f.patch_pending AND o.status = 'failed',
        live_fingerprint = CASE WHEN o.status = 'failed' THEN f.live_fingerprint ELSE o.fingerprint END,
        live_stamp = CASE WHEN o.status = 'failed' THEN f.live_stamp ELSE o.stamp END,
        live_path = CASE WHEN o.status = 'failed' THEN f.live_path ELSE f.path END,
        live_id_path = CASE WHEN o.status = 'failed' THEN f.live_id_path ELSE f.id_path END,
        live_chunks = CASE WHEN o.status = 'failed' THEN f.live_chunks ELSE o.chunks END,
        live_tokens = CASE WHEN o.status = 'failed' THEN f.live_tokens ELSE o.live_tokens END,
        live_embedded = CASE WHEN o.status = 'failed' THEN f.live_embedded ELSE o.embedded END,
        vectors_due = o.vectors_due,
        lost = o.vectors_due > 0 OR o.status = 'failed' AND f.lost AND NOT f.live_embedded,
        awaits_vectors = o.status = 'pending' OR o.status = 'failed' AND f.awaits_vectors,
        words_language = CASE WHEN o.status = 'failed' THEN f.words_language ELSE o.words_language END,
        properties = CASE WHEN o.status = 'failed' THEN f.properties ELSE o.properties END,
        stated = CASE WHEN o.status = 'failed' THEN f.stated ELSE o.stated END,
        note = CASE WHEN o.status = 'failed' THEN f.note ELSE o.note END,
        -- an earlier attempt of the same task may have paid for chunks that this one found in the cache
        embedded_chunks = f.embedded_chunks + o.embedded_chunks, tokens = f.tokens + o.tokens,
        reused_chunks = greatest(o.reused_chunks - f.embedded_chunks, 0),
        timings = CASE WHEN f.awaits_vectors THEN f.timings || o.timings ELSE o.timings END,
        mime = coalesce(o.mime, f.mime), is_binary = coalesce(o.is_binary, f.is_binary),
        language = coalesce(o.language, f.language), updated_at = now()
    FROM staged_outcome o
    -- without the status, as in still_claimed
    WHERE f.id = o.id AND f.generation = o.generation AND f.lease_owner = %(owner)s
    RETURNING :counted
), noted AS (
    :note_counts
)
SELECT id FROM after

-- name: add_paid
-- For files without an outcome, or with another worker's. A locked row is being finished, so it is skipped.
UPDATE search_index_file f
SET embedded_chunks = f.embedded_chunks + p.chunks, tokens = f.tokens + p.tokens,
    reused_chunks = greatest(f.reused_chunks - p.chunks, 0)
FROM unnest(%(ids)s::uuid[], %(chunks)s::int[], %(tokens)s::bigint[]) AS p (id, chunks, tokens)
WHERE f.id = p.id AND f.id IN (
    SELECT f.id FROM search_index_file f JOIN search_index_task t ON t.id = f.task_id AND t.epoch = %(epoch)s
    WHERE f.id = ANY (%(ids)s) FOR NO KEY UPDATE OF f SKIP LOCKED)

-- name: parsed
UPDATE search_index_file SET parsing = 0 WHERE lease_owner = %(owner)s AND status = 'indexing' AND parsing > 0

-- name: return_expired
-- A death counts against a file only if the file was being parsed alone. Parsed among others it becomes suspect; after
-- parsing it is innocent. After too many deaths it is tried alone, and each further death counts.
WITH alive AS (
    -- Range of the expiry times of valid leases. A lease beyond twice its time means that Postgres' clock was set back.
    -- Just after a server start all leases are valid, because no worker could renew. A start in the future means that
    -- the clock was set back.
    SELECT CASE WHEN now() NOT BETWEEN pg_postmaster_start_time() AND pg_postmaster_start_time() + interval '10 s'
                THEN tstzrange(now(), now() + 2 * %(lease)s, '[]') ELSE tstzrange(NULL, NULL) END AS ends
), forgotten AS (
    DELETE FROM file_lease WHERE owner IN (
        SELECT owner FROM file_lease, alive WHERE NOT ends @> until FOR UPDATE OF file_lease SKIP LOCKED)
)
UPDATE search_index_file f
SET status = CASE WHEN d.given_up THEN 'failed' ELSE 'pending' END, reason = CASE WHEN d.given_up THEN 'crashed' END,
    message = CASE WHEN d.given_up THEN %(message)s END, crashes = d.crashes,
    suspect = f.suspect OR f.parsing > 0 OR f.attempts >= %(deaths)s, parsing = 0, lease_owner = NULL
FROM (
    SELECT id, crashes + counts::int AS crashes, counts AND crashes + 1 >= %(crashes)s AS given_up FROM (
        -- skips rows that other transactions lock: they are being finished or cancelled
        SELECT f.id, f.crashes, f.parsing = 1 OR f.suspect AND f.attempts > %(deaths)s AS counts
        FROM search_index_file f JOIN search_index i ON i.id = f.index_id, alive
        WHERE f.status = 'indexing'
          AND NOT EXISTS (SELECT FROM file_lease l WHERE l.owner = f.lease_owner AND ends @> l.until)
        -- a tombstone refers to the index
        FOR UPDATE OF f SKIP LOCKED FOR KEY SHARE OF i SKIP LOCKED) e
) d
WHERE f.id = d.id
RETURNING f.id, f.path, f.crashes, d.given_up

-- name: bury_given_up
-- other transactions that lock these chunks delete them, and may wait for the files next
WITH gone AS (
    DELETE FROM chunk WHERE id IN (
        SELECT id FROM chunk WHERE file_id = ANY (%(files)s) AND NOT live FOR UPDATE SKIP LOCKED)
    RETURNING id, index_id
), drafted AS (
    DELETE FROM chunk_draft WHERE file_id IN (
        SELECT file_id FROM chunk_draft WHERE file_id = ANY (%(files)s) FOR UPDATE SKIP LOCKED)
    RETURNING index_id, ids
)
INSERT INTO chunk_tombstone (id, index_id) SELECT id, index_id FROM gone UNION ALL :without_row ON CONFLICT DO NOTHING

-- name: list
SELECT :listed_file FROM search_index_file f WHERE index_id = %(index_id)s AND :is_listed AND :is_selected
ORDER BY path, id LIMIT %(limit)s

-- name: list_some
-- only those that are given: no other one is passed over
SELECT :listed_file FROM unnest(%(only)s::uuid[]) AS c (file_id) CROSS JOIN :file_by_id
WHERE index_id = %(index_id)s AND :is_listed
ORDER BY path, id LIMIT %(limit)s

-- name: get
SELECT id, path, live_chunks FROM search_index_file
WHERE index_id = %(index_id)s AND status <> 'removed' AND (id = %(file_id)s OR node_id = %(node_id)s)

-- name: live_content
-- the key to read a file, and the fingerprint of the content behind its live chunks
SELECT key, live_fingerprint FROM search_index_file WHERE id = %(file_id)s AND live_fingerprint IS NOT NULL

-- name: searchable
-- live files, for filters by path and extension
SELECT coalesce(node_id, id::text) AS file_node_id, path, id_path, type, language, mtime_ms FROM search_index_file
WHERE index_id = %(index_id)s AND live_chunks > 0 AND starts_with(path, %(start)s)

-- name: below
-- live files at or below an id path; except for nodes, the path is equivalent, and it has an index
SELECT coalesce(node_id, id::text) AS file_node_id FROM search_index_file
WHERE index_id = %(index_id)s AND live_chunks > 0
  AND (id_path = %(id_path)s OR starts_with(id_path, %(id_path)s || '/'))
  AND (%(path)s::text IS NULL OR path = %(path)s OR starts_with(path, %(path)s || '/'))
LIMIT %(limit)s

-- name: named
SELECT coalesce(node_id, id::text) AS file_node_id FROM search_index_file
WHERE index_id = %(index_id)s AND live_chunks > 0 AND (id = ANY (%(ids)s::uuid[]) OR node_id = ANY (%(names)s))

-- name: kinds
SELECT type, language FROM search_index_file f
WHERE index_id = %(index_id)s AND live_chunks > 0 AND type IS NOT NULL AND :is_selected
GROUP BY type, language ORDER BY count(*) DESC, type, language
