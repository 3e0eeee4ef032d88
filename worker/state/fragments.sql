-- Parts that several queries share. A query includes one by its name after a colon, and so may a fragment.

-- name: avoid_table_scans
-- Makes the planner find rows by an index until the transaction ends. Otherwise it reads a whole table that many
-- indexes share: it expects the rows of a few files to be a large part of it, or a limit to end the reading early.
set_config('enable_seqscan', 'off', true)

-- name: hurry
-- From here on the transaction waits at most a second for each lock, because it holds one for which others wait.
set_config('lock_timeout', '1s', true)

-- name: open
-- status of an open task, or of a file that waits or is worked on
('pending', 'indexing')

-- name: index_columns
-- columns of an index i, in the order of an `Index`
i.id, i.project_id, i.source, i.folder_node_id, i.settings, i.vector_store, i.keyword_index, i.namespace, i.epoch,
i.text_key

-- name: ended_task
-- Columns of a task t that has just ended. Each of two partial indexes is read once: a condition on both states would
-- let the plan read the files of all indexes.
t.id, t.tool_id, t.index_id, t.folder_node_id, t.request_id, t.status, t.error, t.error_code, t.over_cost, t.rerun,
t.rerun_full, t.rerun_allow_removals, t.rerun_request_id, t.rerun_paths, t.rerun_tool_ids,
((SELECT f.id FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'pending' AND f.awaits_vectors
  ORDER BY f.size_bytes, f.id LIMIT 1) IS NOT NULL
 OR (SELECT f.id FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'indexing' AND f.awaits_vectors
     ORDER BY f.lease_owner LIMIT 1) IS NOT NULL) AS awaits_vectors

-- name: is_stopped
-- whether a cancel of an open task t of an index i is recorded: its work has stopped, though its row says otherwise
i.stopping = t.id AND t.status IN :open

-- name: shown_status
-- status of a task t of an index i
CASE WHEN :is_stopped THEN 'cancelled' ELSE t.status END

-- name: task_of_tool
-- A task t of an index i as a tool s shows it. Sweeps record the reason why a task waits. `unwatched_seconds` counts
-- from the last sweep, or from the task's creation if that is later.
s.id AS tool_id, s.project_id, s.created_at AS tool_created_at, t.id AS task_id, t.kind, :shown_status AS status,
t.folder_node_id, t.total_files, t.indexed_files, t.skipped_files, t.failed_files, t.removed_files, t.held_removals,
t.total_bytes, t.done_bytes, t.ignored, t.total_chunks, t.embedded_chunks, t.reused_chunks, t.tokens, t.progress,
t.listing, t.rerun, t.warning, t.error, t.error_code, t.created_at, t.started_at,
CASE WHEN :is_stopped THEN now() ELSE t.finished_at END AS finished_at,
t.worked_from, t.listing_warning, t.cut_texts,
coalesce(t.searchable_files, t.indexed_files) + :failed_with_words AS searchable_files, t.searchable_at,
coalesce(t.vector_chunks, t.total_chunks) AS vector_chunks, t.vectors_due,
t.text_left, t.text_read, t.text_ms, t.document_left, t.document_read, t.document_ms, t.image_left, t.image_read,
t.image_ms,
CASE WHEN t.over_cost THEN t.max_cost_tokens END AS passed_limit,
extract(epoch FROM now() - greatest((SELECT ran_at FROM upkeep WHERE name = 'sweep'), t.created_at))::float8
    AS unwatched_seconds,
i.namespace, i.vector_store, (i.settings -> 'embedder' ->> 'dimensions')::int AS dimensions, :may_hide AS may_hide,
coalesce(s.config ->> 'embedding_model', s.config ->> 'dimensions') IS NOT NULL AS names_model

-- name: may_hide
-- Whether any lists may hide files of a tool s over an index i, from its rules or from nodes.
(jsonb_path_exists(s.config, '$.rules[*].acl.type() ? (@ == "array")') OR EXISTS (:nodes_with_lists))

-- name: nodes_with_lists
-- the nodes n at and below that of an index i for which a list holds, their own or a folder's
SELECT n.id FROM content_node r JOIN content_node n ON n.project_id = r.project_id
    AND n.id_path >= r.id_path AND n.id_path < r.id_path || '0'
    AND (n.id_path = r.id_path OR starts_with(n.id_path, r.id_path || '/'))
WHERE r.project_id = i.project_id AND r.id = i.source ->> 'node_id' AND n.acl_class IS NOT NULL

-- name: sweep_age
-- seconds since the last sweep, or since Postgres started if that is later: workers start after it; 0 without any sweep
coalesce((SELECT extract(epoch FROM now() - greatest(ran_at, pg_postmaster_start_time()))::float8
          FROM upkeep WHERE name = 'sweep'), 0)

-- name: is_alive
-- Whether a process p sent a heartbeat within `patience`, by Postgres' clock, which may have been set back since. No
-- process could send one while Postgres was away, so all get time after its start, unless one of the same name replaced
-- them.
(p.seen_at BETWEEN now() - %(patience)s AND now() + %(patience)s
 OR pg_postmaster_start_time() BETWEEN now() - %(patience)s AND now() AND NOT EXISTS (
    SELECT FROM host_process s WHERE s.host_id = p.host_id AND s.role = p.role AND s.node = p.node
      AND s.seen_at > pg_postmaster_start_time()))

-- name: is_declined
-- whether the current worker has just left t, a task or a build, to other workers
EXISTS (SELECT FROM declined_work d
        WHERE d.work_id = t.id AND d.process_id = %(me)s::uuid AND d.declined_at > now() - interval '20 s')

-- name: first_pending
-- The first pending file of the index of a task t; files without their words come first. The order makes the plan use
-- an index. Without it, the plan for many pending files would read the table, with finished rows first, up to a pending
-- one.
SELECT f.id FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'pending'
ORDER BY f.awaits_vectors, f.size_bytes, f.id LIMIT 1

-- name: first_without_words
-- That file, if its words are not searchable yet. A condition within would let the plan read all files that wait for
-- vectors.
SELECT f.id FROM (
    SELECT f.id, f.awaits_vectors FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'pending'
    ORDER BY f.awaits_vectors, f.size_bytes, f.id LIMIT 1) f
WHERE NOT f.awaits_vectors

-- name: first_due
-- The first file that a worker may claim for a task t: vectors wait until all is listed, so that no outage of the
-- provider delays words.
SELECT f.id FROM (
    SELECT f.id, f.awaits_vectors FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'pending'
    ORDER BY f.awaits_vectors, f.size_bytes, f.id LIMIT 1) f
WHERE NOT (t.listing AND f.awaits_vectors)

-- name: files_are_held
-- whether files of the index of a task t wait, and other transactions lock all of them
(:first_pending) IS NOT NULL AND NOT EXISTS (
    SELECT FROM search_index_file f WHERE f.index_id = t.index_id AND f.status = 'pending'
    ORDER BY f.awaits_vectors, f.size_bytes, f.id LIMIT 1 FOR UPDATE SKIP LOCKED)

-- name: is_done
-- Whether a task t runs, all is listed, and no file of its index is open. A task with a follow-up waits for words only:
-- the follow-up also writes the remaining vectors. Each of three partial indexes is read once.
t.status = 'indexing' AND NOT t.listing AND (:first_without_words) IS NULL AND (t.rerun OR (:first_pending) IS NULL)
  AND (SELECT f.id FROM search_index_file f
       WHERE f.index_id = t.index_id AND f.status = 'indexing' AND NOT (t.rerun AND f.awaits_vectors)
       ORDER BY f.lease_owner LIMIT 1) IS NULL

-- name: embedder_of
-- an index i's embedder, as the embedding cache names it
concat_ws(' ', i.settings #>> '{embedder,model}', i.settings #>> '{embedder,dimensions}',
    i.settings #>> '{embedder,precision}')

-- name: is_in_reach
-- whether the current process sees the needs of an index i: its vectors, the contents of nodes, and its folder
NOT (i.vector_store = ANY (%(refused)s::text[])
     OR i.source ->> 'kind' = 'nodes' AND 'objects' = ANY (%(refused)s::text[])
     OR EXISTS (SELECT FROM folder_refusal l WHERE l.index_id = i.id AND l.host_id = %(host)s::text
                AND l.refused_at > now() - interval '1 min'))

-- name: is_small
-- whether a task t has few files, or few and small ones left
NOT t.listing AND (t.total_files <= %(most_files)s
    OR t.total_files - t.indexed_files - t.skipped_files - t.failed_files <= %(most_files)s
       AND t.total_bytes - t.done_bytes <= %(most_bytes)s)

-- name: slices_at_work
-- the slices that hold files, by index and by project
at_work AS MATERIALIZED (
    SELECT l.index_id, count(*) AS slices FROM file_lease l
    WHERE EXISTS (
        SELECT FROM search_index_file f
        WHERE f.index_id = l.index_id AND f.lease_owner = l.owner AND f.status = 'indexing')
    GROUP BY l.index_id
), at_project AS MATERIALIZED (
    SELECT i.project_id, sum(w.slices) AS slices FROM at_work w JOIN search_index i ON i.id = w.index_id GROUP BY i.project_id
)

-- name: has_prefix
-- whether a file f is below a directory u
substring(f.key FROM 1 FOR length(u.prefix)) = u.prefix

-- name: files_in_spans
-- The files f of an index in some spans of keys. An index has the first bytes of keys. The order makes the plan look up
-- each span in it, even before the statistics know the folder: a join would compare all its files with all spans.
unnest(%(starts)s::bytea[], %(ends)s::bytea[]) AS s (first, until) CROSS JOIN LATERAL (
    SELECT * FROM search_index_file f WHERE f.index_id = %(index_id)s AND f.key >= s.first AND f.key < s.until
      AND substr(f.key, 1, 512) >= substr(s.first, 1, 512) AND substr(f.key, 1, 512) <= substr(s.until, 1, 512)
    ORDER BY substr(f.key, 1, 512)) f
WHERE f.status <> 'removed'

-- name: is_absent
-- whether the listing of a task lacks a file f
EXISTS (SELECT FROM search_index_listing l WHERE l.task_id = %(task_id)s AND l.file_id = f.id AND l.absent)

-- name: vanished
-- The files f that the listing of a task lacks. A later page may report that their directory could not be listed.
search_index_listing l JOIN search_index_file f ON f.id = l.file_id
WHERE l.task_id = %(task_id)s AND l.absent AND f.status <> 'removed' AND NOT :is_unlisted

-- name: is_unlisted
-- whether a file f is below a directory that the task could not list
EXISTS (
    SELECT FROM search_index_task t, unnest(t.unlisted) AS u (prefix) WHERE t.id = %(task_id)s AND :has_prefix)

-- name: file_by_id
-- The file f with the `file_id` of a row c, such as a claim or a chunk. One by one through the index: for a large batch,
-- or before the table's rows are first counted, a join would read the files of all indexes.
LATERAL (SELECT * FROM search_index_file f WHERE f.id = c.file_id LIMIT 1) f

-- name: listed_file
-- columns of a file f as callers see it
id AS file_id, coalesce(node_id, id::text) AS file_node_id, path AS file_path, id_path AS file_id_path,
regexp_replace(path, '^.*/', '') AS file_name, type AS file_type, size_bytes AS size, mtime_ms, mime, is_binary, language,
nullif(properties - 'opening', '{}') AS properties,
CASE WHEN f.status = 'pending' AND f.awaits_vectors THEN 'indexing' ELSE f.status END AS status, reason,
coalesce(message, CASE WHEN status = 'indexed' THEN note END) AS message, NULL AS remedy,
live_fingerprint IS NOT NULL AND NOT :has_words AS stale,
live_chunks > 0 AND live_embedded AND NOT (lost AND vectors_due > 0) AS embedded, live_chunks AS chunks, embedded_chunks,
live_tokens AS tokens, attempts, timings

-- name: is_listed
-- whether a file f has the status, reason and text that callers ask for, and comes after the last listed one
-- the status as above, in terms that let the plan use an index
(%(status)s::text IS NULL AND status <> 'removed'
     OR status = %(status)s AND NOT (%(status)s = 'pending' AND awaits_vectors)
     OR %(status)s = 'indexing' AND status = 'pending' AND awaits_vectors)
  AND (%(reason)s::text IS NULL OR reason = %(reason)s)
  AND (%(q)s::text IS NULL OR strpos(lower(path), lower(%(q)s)) > 0)
  AND (%(after_path)s::text IS NULL OR (path, id) > (%(after_path)s, %(after_id)s))

-- name: counted
-- columns of a file f from which the counts of a task are computed
f.id, f.task_id, f.status, f.work, f.size_bytes, f.live_chunks, f.embedded_chunks, f.reused_chunks, f.tokens,
f.live_embedded, f.vectors_due, f.lost, f.awaits_vectors, f.code_version, f.listed_reason, f.timings

-- name: claimed
-- columns of a file f for a claim
f.id, f.key, f.path, f.id_path, f.node_id, f.type, f.size_bytes, f.stamp, f.code_version, f.listed_reason, f.work,
f.live_fingerprint, f.live_path, f.live_id_path, f.live_chunks, f.live_tokens, f.live_embedded, f.words_language,
f.properties, f.stated, f.note, f.lost, f.generation, f.vectors_due, f.awaits_vectors

-- name: has_words
-- whether the words of a file f are searchable in its listed version
(f.status = 'indexed' OR f.awaits_vectors)

-- name: failed_with_words
-- The number of files of an ended task t that failed although their words are searchable: a text is refused, or costs
-- too much. The task's counts include these among the failed files only.
CASE WHEN t.finished_at IS NOT NULL AND t.failed_files > 0 AND t.vectors_due > 0 THEN (
    SELECT count(*) FROM search_index_file f
    WHERE f.index_id = t.index_id AND f.lost AND f.status = 'failed' AND f.awaits_vectors) ELSE 0 END

-- name: is_left
-- whether the words of a file f are not read yet
f.status IN :open AND NOT f.awaits_vectors

-- name: is_passed
-- whether the content of a file f needs no reading, or needed none
CASE WHEN :is_left THEN f.listed_reason IS NOT NULL OR f.work IN ('path', 'remove') ELSE NOT f.timings ? 'parse' END

-- name: kind
-- The kind of work on a file f, by its name. An image takes the same time whatever its size, and a document takes more
-- per byte of text than a text file.
CASE WHEN :is_passed THEN 'text' WHEN starts_with(f.code_version, 'image-') THEN 'image'
     WHEN split_part(f.code_version, '-', 1) IN ('msg', 'pdf', 'docx', 'doc', 'pptx', 'xls', 'xlsx', 'odt', 'epub')
     THEN 'document' ELSE 'text' END

-- name: bytes_to_read
-- the bytes of a file f that take time, including the cost of opening it
CASE WHEN :is_passed THEN 0 ELSE f.size_bytes END + 1024

-- name: read_ms
-- the milliseconds in which a file f was read and cut
round(1000 * (coalesce((f.timings ->> 'read')::float8, 0) + coalesce((f.timings ->> 'parse')::float8, 0)
              + coalesce((f.timings ->> 'chunk')::float8, 0)))

-- name: is_read_now
-- whether a task k has read a file f for its words
f.task_id = k.id AND (f.status IN ('indexed', 'skipped', 'failed') OR f.awaits_vectors AND f.status IN :open)

-- name: file_counts
-- The increments of files f to the counts of a task k; f.sign is 1, or -1 for the earlier state of a file. `removing`
-- adds 1 to each size, so that the removal of an empty file counts too. A worker of an earlier release that wrote a
-- file's vectors recorded only that none is lost.
coalesce(sum(f.sign) FILTER (WHERE f.status <> 'removed' AND f.work <> 'remove'), 0) AS total,
coalesce(sum(f.sign) FILTER (WHERE f.status = 'indexed'), 0) AS indexed,
coalesce(sum(f.sign) FILTER (WHERE f.status = 'skipped'), 0) AS skipped,
coalesce(sum(f.sign) FILTER (WHERE f.status = 'failed'), 0) AS failed,
coalesce(sum(f.sign) FILTER (WHERE f.status = 'removed' AND f.task_id = k.id), 0) AS removed,
coalesce(sum(f.sign) FILTER (WHERE f.status = 'indexed' OR f.awaits_vectors AND f.status IN :open), 0) AS searchable,
coalesce(sum(f.sign * f.live_chunks), 0) AS chunks,
coalesce(sum(f.sign * (f.live_chunks - f.lost::int * f.vectors_due)) FILTER (WHERE f.live_embedded), 0) AS vectors,
coalesce(sum(f.sign * f.embedded_chunks) FILTER (WHERE f.task_id = k.id), 0) AS embedded,
coalesce(sum(f.sign * f.reused_chunks) FILTER (WHERE f.task_id = k.id), 0) AS reused,
coalesce(sum(f.sign * f.tokens) FILTER (WHERE f.task_id = k.id), 0) AS tokens,
coalesce(sum(f.sign * f.size_bytes) FILTER (WHERE f.status <> 'removed' AND f.work <> 'remove'), 0) AS total_bytes,
coalesce(sum(f.sign * f.size_bytes) FILTER (WHERE f.status IN ('indexed', 'skipped', 'failed')), 0) AS done_bytes,
coalesce(sum(f.sign * f.vectors_due) FILTER (WHERE f.lost), 0) AS due,
coalesce(sum(f.sign * (:bytes_to_read)) FILTER (WHERE :is_left AND :kind = 'text'), 0) AS text_left,
coalesce(sum(f.sign * (:bytes_to_read)) FILTER (WHERE :is_left AND :kind = 'document'), 0) AS document_left,
coalesce(sum(f.sign) FILTER (WHERE :is_left AND :kind = 'image'), 0) AS image_left,
coalesce(sum(f.sign * (f.size_bytes + 1)) FILTER (WHERE f.status <> 'removed' AND f.work = 'remove'), 0) AS removing,
coalesce(sum(f.sign) FILTER (WHERE f.task_id = k.id AND f.status IN ('indexed', 'skipped', 'failed')), 0) AS worked_files

-- name: note_counts
-- Ends a statement that changes files of one task. Its parts `before` and `after` hold their states. The difference is
-- a row of its own, because workers would wait for each other in the task's row.
INSERT INTO search_index_task_delta (task_id, total, indexed, skipped, failed, removed, searchable, chunks, vectors,
    embedded, reused, tokens, total_bytes, done_bytes, due, text_left, document_left, image_left, removing,
    worked_files, text_read, text_ms, document_read, document_ms, image_read, image_ms)
SELECT k.id, :file_counts,
    -- The amounts that a task itself has read of each kind are only added up: computing them again from all files of an
    -- index took five times as long as all their counts.
    coalesce(sum(f.sign * (:bytes_to_read)) FILTER (WHERE :is_read_now AND :kind = 'text'), 0) AS text_read,
    coalesce(sum(f.sign * :read_ms) FILTER (WHERE :is_read_now AND :kind = 'text'), 0) AS text_ms,
    coalesce(sum(f.sign * (:bytes_to_read)) FILTER (WHERE :is_read_now AND :kind = 'document'), 0) AS document_read,
    coalesce(sum(f.sign * :read_ms) FILTER (WHERE :is_read_now AND :kind = 'document'), 0) AS document_ms,
    coalesce(sum(f.sign) FILTER (WHERE :is_read_now AND :kind = 'image'), 0) AS image_read,
    coalesce(sum(f.sign * :read_ms) FILTER (WHERE :is_read_now AND :kind = 'image'), 0) AS image_ms
FROM (SELECT task_id AS id FROM after LIMIT 1) k CROSS JOIN (
    SELECT 1 AS sign, * FROM after UNION ALL SELECT -1, * FROM before WHERE id IN (SELECT id FROM after)) f
GROUP BY k.id

-- name: set_counts
-- Columns of a task t that get the counts c; with c.kept = 1 they are added to the present values, with 0 they replace
-- them. Progress is by bytes and never falls.
total_files = c.kept * t.total_files + c.total, indexed_files = c.kept * t.indexed_files + c.indexed,
    skipped_files = c.kept * t.skipped_files + c.skipped, failed_files = c.kept * t.failed_files + c.failed,
    removed_files = c.kept * t.removed_files + c.removed, total_chunks = c.kept * t.total_chunks + c.chunks,
    searchable_files = c.kept * coalesce(t.searchable_files, t.indexed_files) + c.searchable,
    vector_chunks = c.kept * coalesce(t.vector_chunks, t.total_chunks) + c.vectors,
    vectors_due = c.kept * t.vectors_due + c.due,
    text_left = c.kept * t.text_left + c.text_left,
    text_read = t.text_read + c.text_read,
    text_ms = t.text_ms + c.text_ms,
    document_left = c.kept * t.document_left + c.document_left,
    document_read = t.document_read + c.document_read,
    document_ms = t.document_ms + c.document_ms,
    image_left = c.kept * t.image_left + c.image_left,
    image_read = t.image_read + c.image_read,
    image_ms = t.image_ms + c.image_ms,
    -- all is listed, and no file is left without its words
    searchable_at = coalesce(t.searchable_at, CASE WHEN NOT t.listing AND c.kept * t.removing + c.removing = 0
        AND c.kept * t.total_files + c.total
            <= c.kept * (coalesce(t.searchable_files, t.indexed_files) + t.skipped_files + t.failed_files)
               + c.searchable + c.skipped + c.failed
        THEN now() END),
    embedded_chunks = c.kept * t.embedded_chunks + c.embedded, reused_chunks = c.kept * t.reused_chunks + c.reused,
    tokens = c.kept * t.tokens + c.tokens, total_bytes = c.kept * t.total_bytes + c.total_bytes,
    done_bytes = c.kept * t.done_bytes + c.done_bytes, removing = c.kept * t.removing + c.removing,
    worked_files = c.kept * t.worked_files + c.worked_files,
    worked_from = CASE WHEN c.kept * t.worked_files + c.worked_files > 0
                       THEN coalesce(t.worked_from, t.moved_at, t.started_at) END,
    progress = greatest(t.progress, least(CASE WHEN t.listing THEN 0.99 ELSE 0.999 END,
        (c.kept * (t.done_bytes + t.indexed_files + t.skipped_files + t.failed_files)
         + c.done_bytes + c.indexed + c.skipped + c.failed)::float8
        / (c.kept * (t.total_bytes + t.total_files + t.removing) + c.total_bytes + c.total + c.removing + 1)::float8))

-- name: staged_chunk_columns
-- columns of a chunk as it is staged, in the order in which it is copied
id, file_id, chunk_index, json_pointer, chunk_text, context, lead, trail, content_hash, tokens_estimate, start_line,
end_line, start_char, end_char, title, symbol, node_type, scope, language, level, page, embedded, lost, keywords, code

-- name: without_row
-- after a part `drafted` that deletes drafts: the ids of their chunks without a row
SELECT o.id, d.index_id FROM drafted d CROSS JOIN unnest(d.ids) AS o (id)
LEFT JOIN LATERAL (SELECT true AS has_row FROM chunk c WHERE c.id = o.id LIMIT 1) c ON true WHERE c.has_row IS NULL

-- name: drafted
-- the chunks that open files of an index may get: the store may have them before they have a row
ARRAY (SELECT unnest(d.ids) FROM chunk_draft d JOIN search_index_file f ON f.id = d.file_id
       WHERE d.index_id = %(index_id)s AND f.status IN :open)

-- name: with_inherited
-- the metadata of a new node with that of its parent
nullif(coalesce((SELECT p.all_metadata FROM content_node p
                 WHERE p.project_id = %(project_id)s AND p.id = %(parent_id)s), '{}')
       || coalesce(%(metadata)s::jsonb, '{}'), '{}')

-- name: changed_size
-- bytes of the metadata of a node that was written; null if it has neither metadata nor an access list
CASE WHEN all_metadata IS NOT NULL OR acl_class IS NOT NULL THEN coalesce(octet_length(all_metadata::text), 0) END

-- name: admits
-- Whether an access list a admits a caller. The operator && of arrays would compare each entry with each principal.
EXISTS (SELECT FROM unnest(a.entries) AS e (entry) WHERE e.entry = ANY (%(admitting)s::text[]))
    AND NOT EXISTS (SELECT FROM unnest(a.entries) AS e (entry) WHERE e.entry = ANY (%(denying)s::text[]))

-- name: listed_node
-- columns of a node as it is listed
id, project_id, parent_id, id_path, name, type, size_bytes AS size, version, created_at, updated_at, url

-- name: is_in_folder
-- whether a node is in a folder, or at the top
project_id = %(project_id)s AND (parent_id = %(parent_id)s OR %(parent_id)s::text IS NULL AND parent_id IS NULL)

-- name: is_next_of_class
-- whether a node of a list c is in a folder, or at the top, after the last listed one; 0 means no list
coalesce(acl_class, 0) = c.class AND :is_in_folder
    AND (%(after_name)s::text IS NULL
         OR (substr(name, 1, 200) COLLATE "C", name COLLATE "C", id COLLATE "C")
            > (substr(%(after_name)s, 1, 200), %(after_name)s, %(after_id)s))

-- name: files_with_lists
-- An index i, its files f and the nodes n whose lists hold for them. A member of a container has the list of the
-- container's node, whose id its key begins with.
search_index i JOIN search_index_file f ON f.index_id = i.id
LEFT JOIN content_node n ON n.project_id = i.project_id AND n.id = coalesce(f.node_id, CASE
    WHEN i.source ->> 'kind' = 'nodes'
    THEN convert_from(substring(f.key FOR greatest(position('\x2fff00'::bytea IN f.key) - 1, 0)), 'UTF8') END)

-- name: is_in_classes
-- Whether a file f of an index i is in readable classes, or in none. A file whose node is gone is not, because its list
-- is unknown. Neither is a file whose text came from an earlier node of the same id, until a run has read the new one.
(i.source ->> 'kind' <> 'nodes' OR n.id IS NOT NULL AND (n.acl_class IS NULL OR n.acl_class = ANY (%(classes)s))
    AND split_part(coalesce(f.live_stamp, f.stamp), '-', 2) = (:created)::text)

-- name: is_unused_list
-- Whether no node has an access list a. The newest list of a project stays: it shows that lists must be checked.
EXISTS (SELECT FROM acl_class l WHERE l.project_id = a.project_id AND l.id > a.id)
    AND NOT EXISTS (SELECT FROM content_node n WHERE n.project_id = a.project_id AND n.acl_class = a.id)
    AND NOT EXISTS (
        SELECT FROM content_node n
        WHERE n.project_id = a.project_id AND n.own_acl = a.id AND n.acl_class IS NOT NULL)

-- name: created
-- the creation time of a node n, in microseconds since 1970, which its stamps contain
(extract(epoch FROM n.created_at) * 1000000)::bigint

-- name: acl_of_node
-- the own list of a node n, and whether a caller must not read it; without `admitting`, all may be read
(SELECT a.entries FROM acl_class a WHERE a.id = n.own_acl) AS acl,
%(admitting)s::text[] IS NOT NULL AND n.acl_class IS NOT NULL
    AND NOT EXISTS (SELECT FROM acl_class a WHERE a.id = n.acl_class AND :admits) AS withheld

-- name: listed_columns
-- columns of a file as it is listed, in the order in which it is copied
id, key, path, id_path, node_id, type, size_bytes, stamp, code_version, listed_reason, mtime_ms

-- name: is_unfinished
-- whether a file f needs work, however it is listed
(f.work = 'remove'
 OR f.task_id <> %(task_id)s AND (f.status NOT IN ('indexed', 'skipped') AND NOT (f.status IN :open AND f.awaits_vectors)
                                  OR (SELECT "full" FROM search_index_task WHERE id = %(task_id)s)))

-- name: needs_work
-- whether a file f needs work once it is listed as `excluded`
(f.path, f.id_path, f.stamp, f.code_version) IS DISTINCT FROM
    (excluded.path, excluded.id_path, excluded.stamp, excluded.code_version)
OR f.listed_reason IS DISTINCT FROM excluded.listed_reason
OR :is_unfinished

-- name: set_pending
-- columns of a file that becomes pending: without a worker, an outcome or costs
status = 'pending', reason = NULL, message = NULL, lease_owner = NULL, embedded_chunks = 0, reused_chunks = 0,
    tokens = 0, updated_at = now()

-- name: config_over
-- the config of a tool s over an index i that it has, or to which it switches
CASE WHEN s.index_id = i.id THEN s.config WHEN s.next_index_id = i.id THEN s.next_config END

-- name: touches_root
-- whether an edited path e lies in the folder root, or contains it
(starts_with(e.path || '/', root.id_path || '/') OR starts_with(root.id_path, e.path || '/'))

-- name: edited_nodes
-- the ids of the edited nodes in the folder root; null if the root itself or a folder above it was edited
SELECT CASE WHEN bool_and(starts_with(e.path, root.id_path || '/')) AND count(*) <= %(most_paths)s
            THEN array_agg(DISTINCT regexp_replace(e.path, '^.*/', '')) END
FROM unnest(%(id_paths)s::text[]) AS e (path) WHERE :touches_root

-- name: waits_since
-- the time since which a change c waits for a due run; one that a cancel kept does not wait
CASE WHEN c.due_at IS NULL THEN excluded.since ELSE coalesce(c.since, excluded.since) END

-- name: noted_paths
-- the paths of a change c, including added ones; null means the whole folder, whatever is added
CASE WHEN c.since IS NULL THEN excluded.paths
     ELSE joined_paths(c.paths, excluded.paths, %(most_paths)s) END

-- name: rerun_tool_ids_with_more
-- the tools that requested the run that follows a task t, with another one
CASE WHEN %(tool_id)s = ANY (t.rerun_tool_ids) THEN t.rerun_tool_ids ELSE t.rerun_tool_ids || %(tool_id)s::uuid END

-- name: rerun_paths_with_more
-- the paths of the run that follows a task t, and more
CASE WHEN t.rerun THEN joined_paths(t.rerun_paths, %(paths)s::text[], %(most_paths)s) ELSE %(paths)s::text[] END

-- name: node_of_file
-- after a file f: its node n, if it has one
LEFT JOIN search_index i ON i.id = f.index_id AND f.node_id IS NOT NULL
LEFT JOIN content_node n ON n.project_id = i.project_id AND n.id = f.node_id

-- name: metadata_view
-- the view of a tool s on the metadata of its files
jsonb_build_object(
    'declared', coalesce(s.config -> 'metadata', '{}'), 'sources', coalesce(s.config -> 'metadata_from', '[]'),
    'rules', coalesce(s.config -> 'rules', '[]'))

-- name: stated_metadata
-- the metadata of a file f from its sources; later sources replace earlier ones
coalesce(CASE WHEN 'properties' = ANY (%(sources)s::text[]) THEN
    jsonb_strip_nulls(f.properties - ARRAY ['keywords', 'created', 'modified', 'opening'] || jsonb_build_object(
        'keywords', nullif(array_remove(regexp_split_to_array(f.properties ->> 'keywords', '\s*[,;]\s*'), ''), '{}'),
        'created', substring(f.properties ->> 'created' FROM '^\d{4}-\d\d-\d\d$') || 'T00:00:00Z',
        'modified', substring(f.properties ->> 'modified' FROM '^\d{4}-\d\d-\d\d$') || 'T00:00:00Z')) END, '{}')
|| coalesce(CASE WHEN 'front_matter' = ANY (%(sources)s::text[]) THEN f.stated -> 'front_matter' END, '{}')
|| coalesce(CASE WHEN 's3' = ANY (%(sources)s::text[]) THEN f.stated -> 's3' END, '{}')
|| coalesce((SELECT c.stated -> 'sidecars' FROM search_index_file c
             WHERE 'sidecars' = ANY (%(sources)s::text[]) AND c.index_id = f.index_id AND c.path = f.path || '.meta.json'
               AND c.stated -> 'sidecars' IS NOT NULL
               -- folders of nodes may share their path
               AND regexp_replace(c.id_path, '[^/]*$', '') = regexp_replace(f.id_path, '[^/]*$', '')
             ORDER BY c.id LIMIT 1), '{}')

-- name: has_live
-- whether a file f has data that its removal would lose: live chunks, or metadata of the file beside it
(f.live_fingerprint IS NOT NULL OR f.stated -> 'sidecars' IS NOT NULL)

-- name: is_selected
-- whether a file f is among those that a filter by metadata selects
(%(only)s::uuid[] IS NULL OR f.id = ANY (%(only)s::uuid[]))

-- name: is_of_selected
-- whether a row belongs to such a file, if no other table of the query has files
(%(only)s::uuid[] IS NULL OR file_id = ANY (%(only)s::uuid[]))

-- name: is_in_selected
-- whether a reference r is in one of these files
(%(only)s::uuid[] IS NULL OR r.file_id = ANY (%(only)s))

-- name: is_of_files
-- whether a chunk c is of a file whose texts may be shown
(%(files)s::uuid[] IS NULL OR c.file_id = ANY (%(files)s))

-- name: is_shown_summary
-- whether a summary n may be shown; without `readable`, all may be
(%(readable)s::text[] IS NULL OR n.key = ANY (%(readable)s))

-- name: hit_columns
-- the columns of an answer for a chunk c of a file f, whose node n may have a URL
c.chunk_text, coalesce(f.node_id, f.id::text) AS file_node_id, f.id AS file_id, f.id_path AS file_id_path,
f.path AS file_path, f.type AS file_type, c.title, c.json_pointer, c.chunk_index, f.live_chunks AS total_chunks,
c.content_hash, c.start_line, c.end_line, c.start_char, c.end_char, c.language, c.context, c.symbol, c.node_type,
c.scope, c.level, c.page, c.embedded, (NOT :has_words OR f.missing) AS stale, n.url, n.all_metadata AS metadata

-- name: hit_version
-- The transactions that last wrote the rows of a hit. It changes whenever the columns of `hits` change.
concat_ws(' ', c.xmin, f.xmin, n.xmin)

-- name: version_with_lists
-- the same, and whether the project of the index has any access list
concat_ws(' ', :hit_version, (SELECT 'lists' WHERE EXISTS (
    SELECT FROM search_index x JOIN acl_class a ON a.project_id = x.project_id WHERE x.id = %(index_id)s)))

-- name: chunk_filters
-- whether a chunk c passes the filters of a query
(%(languages)s::text[] IS NULL OR c.language = ANY (%(languages)s))
    AND (%(symbols)s::text[] IS NULL OR c.symbol = ANY (%(symbols)s) OR c.id = ANY (%(symbol_ids)s::uuid[]))
    AND (%(node_types)s::text[] IS NULL OR c.node_type = ANY (%(node_types)s))
    AND (%(scope)s::text IS NULL OR c.scope = %(scope)s OR starts_with(c.scope, %(scope)s || '/')
         OR c.id = ANY (%(scope_ids)s::uuid[]))
    AND (%(json_pointer)s::text IS NULL OR c.json_pointer = %(json_pointer)s
         OR starts_with(c.json_pointer, %(json_pointer)s || '/'))
    AND (%(level)s::int IS NULL OR c.level = %(level)s)

-- name: file_filters
-- whether a file f passes the filters of a query
(%(file_node_ids)s::text[] IS NULL OR coalesce(f.node_id, f.id::text) = ANY (%(file_node_ids)s))
    AND (%(id_paths)s::text[] IS NULL OR f.id_path = ANY (%(id_paths)s) OR f.id_path ^@ ANY (%(below)s::text[]))
    AND (%(folders)s::text[] IS NULL OR f.id_path ^@ ANY (%(folders)s::text[]))
    AND (%(endings)s::text[] IS NULL OR f.path LIKE ANY (%(endings)s::text[]))
    AND (%(types)s::text[] IS NULL OR f.type = ANY (%(types)s))

-- name: free_upkeep
-- the row of an index in the queue of deletions, unless it is locked
free AS (SELECT FROM search_index_upkeep WHERE index_id = %(index_id)s FOR UPDATE SKIP LOCKED)

-- name: is_free_upkeep
EXISTS (SELECT FROM free) OR NOT EXISTS (SELECT FROM search_index_upkeep WHERE index_id = %(index_id)s)

-- name: check_every
-- interval at which the namespace of an index i is compared: the time since its last task began, between two bounds
least(%(longest)s, greatest(%(every)s, (SELECT now() - max(k.created_at) FROM search_index_task k WHERE k.index_id = i.id)))

-- name: newest_task
-- Tables and conditions that select the newest task of the query's index. No two tasks have the same time, because
-- `create` gives each a later one. A second sort key would make Postgres sort rows that an index returns in order.
search_index_task WHERE index_id = %(index_id)s ORDER BY created_at DESC LIMIT 1

-- name: newest_task_of_tool
-- after a tool s: the newest task t of its index
CROSS JOIN LATERAL (
    SELECT * FROM search_index_task WHERE index_id = s.index_id ORDER BY created_at DESC LIMIT 1) t

-- name: newest_task_of_tree
-- the newest task over the index of a tree t
(SELECT n.id, n.status FROM search_index_task n WHERE n.index_id = t.index_id ORDER BY n.created_at DESC LIMIT 1)

-- name: any_tree
-- whether an index has a tree
EXISTS (SELECT FROM summary_tree WHERE index_id = %(index_id)s)

-- name: tree_is_enabled
-- whether a tool s has summary trees enabled
s.config #>> '{raptor,enabled}' = 'true'

-- name: is_wanted
-- whether a tool wants a tree t
EXISTS (SELECT FROM search_tool s WHERE s.index_id = t.index_id AND :tree_is_enabled AND s.config -> 'raptor' = t.config)

-- name: unleased
-- whether no worker holds a tree t; a lease never reaches further ahead, unless Postgres' clock was set back
coalesce(NOT t.lease_until BETWEEN now() AND now() + %(lease)s, true)

-- name: waits_for_task
-- whether a tree t has not begun, and a task works on its index
(t.stage = 'leaves' AND EXISTS (
    SELECT FROM search_index_task n WHERE n.index_id = t.index_id AND n.status IN :open))

-- name: begin_again
-- columns of a tree to build
status = 'pending', stage = 'leaves', level = 0, epoch = t.epoch + 1, owner = NULL, lease_until = NULL, sent_at = NULL,
    deaths = 0, faults = 0, failures = 0, failure_reason = NULL, rerun = false, rerun_full = false,
    expected_summaries = 0, done_summaries = 0,
    tokens_in = 0, tokens_out = 0, requests = 0, warning = NULL, error = NULL, error_code = NULL, started_at = NULL,
    finished_at = NULL

-- name: ended
-- columns of a tree whose build ended, and from which no earlier task starts another
owner = NULL, lease_until = NULL, warning = NULL, finished_at = now(), epoch = t.epoch + 1

-- name: key_columns
-- columns of a key, without its hash
id, project_id, name, scopes, created_at, expires_at, last_used_at, revoked_at, replaced_by,
    CASE WHEN :key_is_valid THEN 'valid' WHEN revoked_at IS NULL THEN 'expired' ELSE 'revoked' END AS state

-- name: key_is_valid
revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
