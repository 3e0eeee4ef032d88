-- name: written
-- the recursion skips from one language to the next: an index has few
WITH RECURSIVE found AS (
    (SELECT words_language AS language FROM search_index_file
     WHERE index_id = %(index_id)s AND live_chunks > 0 AND words_language IS NOT NULL ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT (SELECT f.words_language FROM search_index_file f
            WHERE f.index_id = %(index_id)s AND f.live_chunks > 0 AND f.words_language > p.language ORDER BY 1 LIMIT 1)
    FROM found p WHERE p.language IS NOT NULL
)
SELECT language FROM found WHERE language IS NOT NULL

-- name: others_share
-- the share of chunks in files of other languages, over a limited number of an index's files, without some types
SELECT coalesce((sum(live_chunks) FILTER (WHERE words_language <> %(default)s))::float8 / sum(live_chunks), 0)
FROM (SELECT live_chunks, words_language FROM search_index_file
      WHERE index_id = %(index_id)s AND live_chunks > 0 AND type <> ALL (%(without)s)
      ORDER BY path, id LIMIT %(limit)s) f
