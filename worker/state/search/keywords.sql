-- name: bounds
-- for this transaction
SELECT set_config('statement_timeout', %(milliseconds)s, true), :avoid_table_scans

-- name: size
-- live chunks, and the mean length of chunks in tokens
SELECT (SELECT sum(live_chunks)::float8 FROM search_index_file WHERE index_id = %(index_id)s),
       (SELECT avg(c.tokens_estimate)::float8 FROM (
            -- ids are hashes, so the first of them are a fair sample
            SELECT tokens_estimate FROM chunk WHERE index_id = %(index_id)s ORDER BY id LIMIT %(sample)s) c)

-- name: frequencies
-- chunks with a lexeme, counted up to a limit
SELECT q.lexeme, (
    SELECT count(*) FROM (
        SELECT FROM chunk c WHERE c.index_id = %(index_id)s AND c.live AND c.{field} @@ q.query::tsquery
        LIMIT %(limit)s) c)
FROM unnest(%(lexemes)s::text[], %(queries)s::text[]) q (lexeme, query)

-- name: shares
-- the share of chunks with a lexeme, estimated from a sample
WITH c AS MATERIALIZED (
    SELECT c.{field} FROM chunk c WHERE c.index_id = %(index_id)s AND c.live ORDER BY c.id LIMIT %(sample)s
)
SELECT q.lexeme, avg(coalesce(c.{field} @@ q.query, false)::int)::float8
FROM unnest(%(lexemes)s::text[], %(queries)s::tsquery[]) q (lexeme, query) CROSS JOIN c GROUP BY q.lexeme

-- name: search
-- BM25 of some candidates. For a single lexeme, ts_rank is a function of its count n in the chunk: with all weights w
-- it is w * (1/1 + 1/4 + ... + 1/n^2) / (pi^2/6), and the rest of that series is close to 1/(n + 1/2).
WITH term AS MATERIALIZED (
    SELECT query, weight FROM unnest(%(queries)s::tsquery[], %(weights)s::float8[]) t (query, weight)
), passing AS NOT MATERIALIZED (
    -- Postgres does not know how few chunks some files have, and would search for these through all ids in order
    SELECT c.id, CASE WHEN %(anywhere)s THEN c.id END AS walked, CASE WHEN NOT %(anywhere)s THEN c.id::text END AS sorted,
           c.{field} AS words, %(k1)s * (1 - %(b)s + %(b)s * c.tokens_estimate / %(mean)s::float8) AS long
    FROM chunk c JOIN search_index_file f ON f.id = c.file_id
    WHERE c.index_id = %(index_id)s AND c.live AND :file_filters AND :chunk_filters
), first AS MATERIALIZED (
    -- By id instead of disk order, which edits of other chunks change. Ids are hashes, so this is a sample.
    SELECT * FROM passing WHERE words @@ %(together)s::tsquery ORDER BY walked, sorted LIMIT %(candidates)s
), candidate AS MATERIALIZED (
    SELECT * FROM first
    UNION ALL
    -- not run if no room is left, because it would examine every chunk that the first part matched again
    (SELECT * FROM passing WHERE words @@ %(rare)s::tsquery AND NOT coalesce(words @@ %(together)s::tsquery, false)
     ORDER BY walked, sorted LIMIT %(candidates)s - (SELECT count(*) FROM first))
), counted AS (
    SELECT c.id, c.long, t.weight,
           1 / (pi() ^ 2 / 6 * (1 - ts_rank('{{1,1,1,1}}', c.words, t.query)::float8)) - 0.5 AS n
    FROM candidate c JOIN term t ON c.words @@ t.query
    -- forces one call of ts_rank instead of one per mention of n
    OFFSET 0
)
-- rounded, because a sum of fractions depends on their order, and equal chunks must have equal scores
SELECT id::text, round(sum(weight * n / (n + long))::numeric, 9)::float8 AS score FROM counted
GROUP BY id ORDER BY score DESC, counted.id LIMIT %(limit)s
