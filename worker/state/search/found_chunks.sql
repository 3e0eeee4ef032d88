-- name: hits
SELECT c.id::text AS chunk_id, :version_with_lists AS version, :hit_columns
FROM chunk c JOIN search_index_file f ON f.id = c.file_id :node_of_file
WHERE c.id = ANY (%(ids)s::uuid[]) AND c.index_id = %(index_id)s AND c.live

-- name: newer_hits
-- as `hits`, but chunks with a known version have no other columns
SELECT c.id::text AS chunk_id, :version_with_lists AS version, h.*
FROM unnest(%(ids)s::uuid[], %(known)s::text[]) AS k (id, version)
JOIN chunk c ON c.id = k.id JOIN search_index_file f ON f.id = c.file_id :node_of_file
LEFT JOIN LATERAL (SELECT :hit_columns) h ON :version_with_lists IS DISTINCT FROM k.version
WHERE c.index_id = %(index_id)s AND c.live

-- name: versions
SELECT c.id::text, :version_with_lists
FROM chunk c JOIN search_index_file f ON f.id = c.file_id :node_of_file
WHERE c.id = ANY (%(ids)s::uuid[]) AND c.index_id = %(index_id)s AND c.live

-- name: file_ids
SELECT id::text, file_id FROM chunk WHERE id = ANY (%(ids)s::uuid[]) AND index_id = %(index_id)s AND live

-- name: with_phrase
-- Any run of white space counts as one space. Texts whose read form may differ are returned too, for a second check.
SELECT id::text, type, CASE WHEN NOT written THEN chunk_text END
FROM chunk c CROSS JOIN LATERAL (
    SELECT strpos(regexp_replace(lower(chunk_text), '\s+', ' ', 'g'), %(phrase)s) > 0 AS written) w
CROSS JOIN LATERAL (SELECT type FROM search_index_file f WHERE f.id = c.file_id) f
WHERE id = ANY (%(ids)s::uuid[]) AND index_id = %(index_id)s AND live
  AND (written OR chunk_text ~ '\\[^ ]|&#?\w+;|<r|\{\w+\}\w|%%(25|u|[2-9A-Fa-f])|xn--|=([89A-F?]|\r?\n)|\w"[-\w=~|]')

-- name: any_live
SELECT EXISTS (SELECT FROM search_index_file f WHERE index_id = %(index_id)s AND live_chunks > 0 AND :is_selected)

-- name: containing_lines
SELECT c.id::text
FROM unnest(%(files)s::uuid[], %(lines)s::int[]) AS a (file_id, line)
JOIN chunk c ON c.file_id = a.file_id AND c.live AND a.line BETWEEN c.start_line AND c.end_line

-- name: passing
SELECT c.id::text FROM chunk c JOIN search_index_file f ON f.id = c.file_id
WHERE c.id = ANY (%(ids)s::uuid[]) AND :file_filters AND :chunk_filters

-- name: unembedded
-- whole files, none longer than an answer may hold
SELECT f.id, w.characters
FROM search_index_file f CROSS JOIN LATERAL (
    SELECT max(c.end_char) + max(length(c.trail)) AS characters, bool_or(:chunk_filters) AS passes
    FROM chunk c WHERE c.file_id = f.id AND c.live) w
WHERE f.index_id = %(index_id)s AND NOT f.live_embedded AND w.passes AND w.characters <= %(characters)s AND :file_filters
  AND :is_selected AND NOT f.id = ANY (%(without)s)
ORDER BY f.path, f.id_path LIMIT %(limit)s

-- name: whole
-- as `hits`, with the texts around each chunk
SELECT c.id::text AS chunk_id, :hit_version AS version, :hit_columns, c.lead, c.trail
FROM chunk c JOIN search_index_file f ON f.id = c.file_id :node_of_file
WHERE c.file_id = ANY (%(files)s) AND c.live AND c.level = 0 ORDER BY f.id, c.start_char, c.end_char

-- name: any_passes
SELECT EXISTS (
SELECT FROM chunk c JOIN search_index_file f ON f.id = c.file_id
WHERE c.index_id = %(index_id)s AND c.live AND :file_filters AND :chunk_filters
)
