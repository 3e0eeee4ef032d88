-- name: stage_page
CREATE TEMP TABLE IF NOT EXISTS staged_page ON COMMIT DELETE ROWS AS
SELECT :listed_columns FROM search_index_file WITH NO DATA

-- name: copy_page
COPY staged_page FROM STDIN

-- name: forget_absent
-- marks of an earlier, unfinished listing of the same task
DELETE FROM search_index_listing WHERE task_id = %(task_id)s AND absent

-- name: hash_known
-- The number and the hash of the files of some spans, in the order of their keys. The hash equals the listed files'
-- hash if none needs work. A length before each free text keeps different files apart. A file that an earlier page
-- lacked, and this one has, must lose its mark. One row more than listed shows that some are gone.
SELECT count(*), sha256(convert_to(string_agg(CASE
    WHEN :is_unfinished OR (SELECT EXISTS (
        SELECT FROM search_index_listing WHERE task_id = %(task_id)s AND absent)) AND :is_absent THEN '' ELSE
    concat(length(f.path), ' ', length(f.id_path), ' ', f.path, f.id_path, f.stamp, ' ', f.code_version, ' ',
           f.listed_reason, ' ', f.mtime_ms, ' ',
           CASE WHEN convert_to(f.path, 'UTF8') <> f.key THEN encode(f.key, 'hex') END, E'\n') END, '' ORDER BY f.key), 'UTF8'))
FROM (SELECT f.* FROM :files_in_spans LIMIT %(listed)s + 1) f

-- name: need_not_last
-- a crash of the server may undo this transaction: the page is listed again
SELECT set_config('synchronous_commit', 'off', true)

-- name: note_seen
INSERT INTO search_index_listing (task_id, file_id) SELECT %(task_id)s, id FROM staged_page
ON CONFLICT (task_id, file_id) DO UPDATE SET absent = false WHERE search_index_listing.absent

-- name: note_absent
-- Files in the spans of a page that the page lacks. A file that an earlier page lacked may be listed after all. Files
-- of a page without spans are marked as seen, and stay so.
WITH returned AS (
    DELETE FROM search_index_listing l USING staged_page s WHERE l.task_id = %(task_id)s AND l.file_id = s.id AND l.absent
)
INSERT INTO search_index_listing (task_id, file_id, absent)
SELECT %(task_id)s, f.id, true FROM :files_in_spans
  AND NOT EXISTS (SELECT FROM staged_page s WHERE s.id = f.id) AND NOT :is_unlisted
ON CONFLICT DO NOTHING

-- name: note_all_absent
INSERT INTO search_index_listing (task_id, file_id, absent)
SELECT %(task_id)s, f.id, true FROM search_index_file f
WHERE f.index_id = %(index_id)s AND f.status <> 'removed'
  AND NOT (SELECT EXISTS (SELECT FROM search_index_listing l WHERE l.task_id = %(task_id)s AND l.file_id = f.id))
  AND NOT (SELECT :is_unlisted)

-- name: note_absent_at_keys
-- the files of an index at and below some keys; each lookup uses an index that has the first bytes of keys
WITH folders AS MATERIALIZED (
    -- the key of a node is its id; a present or former document has no nodes below it
    SELECT k.id FROM (
        SELECT k.key, i.project_id, CASE WHEN i.source ->> 'kind' = 'nodes' THEN convert_from(k.key, 'UTF8') END AS id
        FROM search_index i, unnest(%(keys)s::bytea[]) AS k (key) WHERE i.id = %(index_id)s) k
    LEFT JOIN content_node n ON n.project_id = k.project_id AND n.id = k.id
    WHERE k.id IS NOT NULL AND (n.type = 'folder' OR n.id IS NULL AND NOT EXISTS (
        SELECT FROM search_index_file f
        WHERE f.index_id = %(index_id)s AND f.key = k.key AND substr(f.key, 1, 512) = substr(k.key, 1, 512)
          AND f.status <> 'removed'))
), listed AS (
    SELECT f.id FROM unnest(%(keys)s::bytea[]) AS k (key)
    JOIN search_index_file f ON f.index_id = %(index_id)s AND f.key = k.key AND substr(f.key, 1, 512) = substr(k.key, 1, 512)
    UNION SELECT f.id FROM unnest(%(keys)s::bytea[]) AS k (key)
    JOIN search_index_file f ON f.index_id = %(index_id)s AND f.key > k.key || '\x2f'::bytea AND f.key < k.key || '\x30'::bytea
        AND substr(f.key, 1, 512) >= substr(k.key || '\x2f'::bytea, 1, 512)
        AND substr(f.key, 1, 512) <= substr(k.key || '\x30'::bytea, 1, 512)
    -- An id path contains the nodes above a file. All files are read, but only if a folder changed. A member of a
    -- container has no node: its key begins with the container's, and the nodes above the container count.
    UNION SELECT f.id FROM search_index_file f
    WHERE EXISTS (SELECT FROM folders) AND f.index_id = %(index_id)s
      AND string_to_array(CASE WHEN f.node_id IS NOT NULL THEN f.id_path ELSE split_part(f.id_path, '/' || convert_from(
              substring(f.key FROM 1 FOR position('\x2fff00'::bytea IN f.key) - 1), 'UTF8') || '/', 1) END, '/')
          && ARRAY (SELECT id FROM folders)
)
INSERT INTO search_index_listing (task_id, file_id, absent)
SELECT %(task_id)s, f.id, true FROM listed JOIN search_index_file f USING (id)
WHERE f.status <> 'removed'
  AND NOT EXISTS (SELECT FROM search_index_listing l WHERE l.task_id = %(task_id)s AND l.file_id = f.id)
  AND NOT :is_unlisted

-- name: merge_page
-- New, changed, unfinished and failed files become pending; unchanged rows are not even locked. A file that only moved
-- needs work on its path alone.
WITH known AS MATERIALIZED (
    SELECT excluded.*, f.id IS NULL OR (:needs_work) AS needs_work, f.mtime_ms IS DISTINCT FROM excluded.mtime_ms AS is_dated
    FROM staged_page excluded LEFT JOIN LATERAL (
        -- one by one through the index: a join would read the whole table for each page
        SELECT * FROM search_index_file f WHERE f.id = excluded.id LIMIT 1) f ON true
), dated AS (
    -- the modification time is shown, but causes no work
    UPDATE search_index_file f SET mtime_ms = k.mtime_ms FROM known k WHERE f.id = k.id AND k.is_dated AND NOT k.needs_work
), before AS (
    SELECT :counted FROM search_index_file f JOIN known k ON k.id = f.id AND k.needs_work
), after AS (
    INSERT INTO search_index_file AS f (index_id, task_id, :listed_columns)
    SELECT %(index_id)s, %(task_id)s, :listed_columns FROM known WHERE needs_work
    ON CONFLICT (id) DO UPDATE
    SET path = excluded.path, id_path = excluded.id_path, node_id = excluded.node_id,
        type = coalesce(excluded.type, f.type), size_bytes = excluded.size_bytes, mtime_ms = excluded.mtime_ms,
        work = CASE WHEN (SELECT "full" FROM search_index_task WHERE id = excluded.task_id) THEN 'full'
                    WHEN :has_words AND f.stamp = excluded.stamp AND f.code_version = excluded.code_version
                    THEN 'path' ELSE 'read' END,
        awaits_vectors = f.awaits_vectors AND NOT (SELECT "full" FROM search_index_task WHERE id = excluded.task_id)
            AND (f.path, f.id_path, f.stamp, f.code_version)
                = (excluded.path, excluded.id_path, excluded.stamp, excluded.code_version)
            AND excluded.listed_reason IS NULL,
        live_stamp = coalesce(f.live_stamp, f.stamp),
        task_id = excluded.task_id, stamp = excluded.stamp, code_version = excluded.code_version,
        listed_reason = excluded.listed_reason, :set_pending, attempts = 0, suspect = false, crashes = 0, parsing = 0
    -- a worker may have claimed the file in between
    WHERE :needs_work
    RETURNING :counted
)
:note_counts

-- name: unchanged
SELECT f.key, f.live_path FROM unnest(%(ids)s::uuid[], %(stamps)s::text[]) AS c (file_id, stamp) CROSS JOIN :file_by_id
WHERE f.stamp = c.stamp AND (:has_words OR f.status = 'skipped')

-- name: vanished_keys
SELECT f.key FROM :vanished AND :has_live ORDER BY f.key

-- name: count_live
SELECT count(*) FROM search_index_file f
WHERE f.index_id = %(index_id)s AND f.status <> 'removed' AND :has_live

-- name: count_vanished
SELECT count(*) AS files, count(*) FILTER (WHERE :has_live) AS live FROM :vanished

-- name: ignored_if_empty
SELECT t.ignored FROM search_index_task t
WHERE t.id = %(task_id)s AND (
    SELECT f.id FROM search_index_file f
    WHERE f.index_id = t.index_id AND f.status <> 'removed' AND NOT (SELECT :is_absent) AND NOT (SELECT :is_unlisted)
    LIMIT 1) IS NULL

-- name: note_missing
-- files whose removal is held
UPDATE search_index_file f SET missing = true FROM (SELECT f.id FROM :vanished AND :has_live AND NOT f.missing) v
WHERE f.id = v.id

-- name: note_returned
-- no file is read unless removals of the index have been held
UPDATE search_index_file f SET missing = false
WHERE f.index_id = %(index_id)s AND f.missing
  AND EXISTS (SELECT FROM search_index_task t WHERE t.index_id = %(index_id)s AND t.held_removals > 0)
  AND CASE WHEN %(keys)s::bytea[] IS NULL THEN NOT :is_absent AND NOT :is_unlisted ELSE EXISTS (
          SELECT FROM search_index_listing l WHERE l.task_id = %(task_id)s AND l.file_id = f.id AND NOT l.absent) END

-- name: remove_vanished
WITH before AS (
    SELECT :counted FROM :vanished AND NOT (%(keep_live)s AND :has_live)
), after AS (
    UPDATE search_index_file f
    SET work = 'remove', task_id = %(task_id)s, awaits_vectors = false, :set_pending
    FROM before b WHERE f.id = b.id
    RETURNING :counted
)
:note_counts
