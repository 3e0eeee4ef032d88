-- name: neighbours
-- For each stretch of a file's chunks, up to `before` live chunks before it and up to `after` after it. None for a file
-- whose text changed since the chunks were read.
WITH changed AS (
    SELECT s.file FROM unnest(%(of)s::uuid[], %(ids)s::uuid[], %(indexes)s::int[], %(starts)s::int[])
         AS s (file, id, chunk_index, start_char)
    WHERE NOT EXISTS (SELECT FROM chunk c WHERE c.id = s.id AND c.live AND c.chunk_index = s.chunk_index
                      AND c.start_char = s.start_char)
)
SELECT a.place, c.chunk_index < a.first AS is_before, c.id AS chunk_id, c.chunk_text, c.chunk_index, c.start_line,
       c.end_line, c.start_char, c.end_char
FROM unnest(%(files)s::uuid[], %(first)s::int[], %(last)s::int[]) WITH ORDINALITY AS a (file, first, last, place)
CROSS JOIN LATERAL (
    (SELECT * FROM chunk c WHERE c.file_id = a.file AND c.chunk_index < a.first AND c.index_id = %(index_id)s AND c.live
     AND c.level = 0 ORDER BY c.chunk_index DESC LIMIT %(before)s)
    UNION ALL
    (SELECT * FROM chunk c WHERE c.file_id = a.file AND c.chunk_index > a.last AND c.index_id = %(index_id)s AND c.live
     AND c.level = 0 ORDER BY c.chunk_index LIMIT %(after)s)) c
WHERE a.file NOT IN (SELECT file FROM changed)
ORDER BY a.place, c.chunk_index

-- name: lines
-- chunks with any of these lines, also in the text before them; the last chunk of a file covers later lines too
SELECT c.chunk_text, c.lead, c.trail, c.start_char, c.end_char, c.start_line, c.json_pointer
FROM chunk c
WHERE c.file_id = %(file)s AND c.live AND c.level = 0
  AND c.end_line + length(c.trail) - length(replace(c.trail, E'\n', '')) - (right(c.trail, 1) = E'\n')::int >= %(first)s
  AND (%(last)s::numeric IS NULL OR c.start_line - length(c.lead) + length(replace(c.lead, E'\n', '')) <= %(last)s)
ORDER BY c.start_char, c.end_char

-- name: line_count
-- a line feed at the very end starts no further line
SELECT max(c.end_line + length(c.trail) - length(replace(c.trail, E'\n', '')) - (right(c.trail, 1) = E'\n')::int)
FROM chunk c WHERE c.file_id = %(file)s AND c.live AND c.level = 0

-- name: page
-- a file's live chunks, in its order
SELECT c.id AS chunk_id, c.chunk_text, c.chunk_index, c.start_line, c.end_line, c.start_char, c.end_char,
       c.tokens_estimate AS tokens, c.context, c.content_hash, c.title, c.json_pointer, c.language, c.symbol, c.node_type,
       c.scope, c.level, c.page, c.embedded
FROM chunk c
WHERE c.file_id = %(file)s AND c.live
  AND (%(after_index)s::int IS NULL OR (c.chunk_index, c.id) > (%(after_index)s, %(after_id)s))
ORDER BY c.chunk_index, c.id LIMIT %(limit)s

-- name: texts
-- the text of files in their order, as far as the bytes of the files allow
SELECT c.file_id, c.chunk_text, c.lead, c.trail, c.start_char, c.end_char, c.start_line, c.json_pointer
FROM (SELECT id FROM (
          SELECT id, sum(size_bytes) OVER (ORDER BY place) AS bytes
          FROM search_index_file JOIN unnest(%(ids)s::uuid[]) WITH ORDINALITY AS a (file, place) ON file = id) f
      WHERE %(bytes)s::bigint IS NULL OR bytes <= %(bytes)s) f
JOIN chunk c ON c.file_id = f.id
WHERE c.live AND c.level = 0 ORDER BY c.file_id, c.start_char, c.end_char
