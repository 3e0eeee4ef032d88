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
