-- name: levels
SELECT level, count(*) FROM tree_node WHERE tree_id = %(tree_id)s AND live AND text IS NOT NULL GROUP BY level ORDER BY level

-- name: leaf_count
SELECT count(*) FROM tree_leaf WHERE tree_id = %(tree_id)s AND live

-- name: has_nodes
-- whether an index has a tree, or tree vectors to delete
SELECT :any_tree OR EXISTS (SELECT FROM tree_tombstone WHERE index_id = %(index_id)s)

-- name: all_nodes
SELECT n.id, n.live AND n.text IS NOT NULL FROM tree_node n JOIN summary_tree t ON t.id = n.tree_id
WHERE t.index_id = %(index_id)s
UNION ALL
SELECT id, false FROM tree_tombstone WHERE index_id = %(index_id)s

-- name: rewrite
WITH lost AS (
    UPDATE tree_node SET stored = false WHERE id = ANY (%(ids)s) RETURNING tree_id
)
UPDATE summary_tree t SET is_full = true, :begin_again
WHERE t.id IN (SELECT tree_id FROM lost) AND t.status NOT IN :open

-- name: folder
-- distinct texts with a vector, and their tokens
SELECT count(*), coalesce(sum(tokens), 0)::bigint FROM (
    SELECT max(tokens_estimate) AS tokens FROM chunk
    WHERE index_id = %(index_id)s AND live AND embedded AND NOT lost GROUP BY content_hash) texts

-- name: stale
-- texts that are in the folder or in the tree, but not in both
WITH texts AS (
    SELECT DISTINCT content_hash AS hash FROM chunk
    WHERE index_id = %(index_id)s AND live AND embedded AND NOT lost
), leaves AS (
    SELECT hash FROM tree_leaf WHERE tree_id = %(tree_id)s AND live
)
SELECT count(*) FROM texts t FULL JOIN leaves l ON l.hash = t.hash WHERE t.hash IS NULL OR l.hash IS NULL

-- name: page
-- summaries of a level, or below a parent
SELECT n.id, n.level, n.key, n.text, n.children FROM tree_node n
WHERE n.tree_id = %(tree_id)s AND n.live AND n.text IS NOT NULL AND (%(level)s::int IS NULL OR n.level = %(level)s)
  AND (%(keys)s::text[] IS NULL OR n.key = ANY (%(keys)s)) AND :is_shown_summary
  AND (%(after_level)s::int IS NULL OR (-n.level, n.id) > (-%(after_level)s, %(after_id)s::uuid))
ORDER BY -n.level, n.id LIMIT %(limit)s

-- name: node
SELECT level, children, key FROM tree_node WHERE tree_id = %(tree_id)s AND id = %(id)s AND live

-- name: leaf_page
-- texts at the bottom that are still in the folder; of equal ones the chunk with the least id
SELECT d.id, 0 AS level, d.hash AS key, d.chunk_text AS text, '{}'::text[] AS children FROM (
    SELECT DISTINCT ON (l.hash) c.id, l.hash, c.chunk_text FROM tree_leaf l
    JOIN chunk c ON c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(l.hash, 0)
         AND c.content_hash = l.hash AND c.live AND :is_of_files
    WHERE l.tree_id = %(tree_id)s AND l.live AND (%(keys)s::text[] IS NULL OR l.hash = ANY (%(keys)s))
    ORDER BY l.hash, c.id) d
WHERE %(after_id)s::uuid IS NULL OR d.id > %(after_id)s
ORDER BY d.id LIMIT %(limit)s

-- name: parents
SELECT c.child, n.id FROM tree_node n CROSS JOIN unnest(n.children) AS c (child)
WHERE n.tree_id = %(tree_id)s AND n.live AND n.text IS NOT NULL AND c.child = ANY (%(keys)s)
  AND :is_shown_summary
ORDER BY c.child, n.id

-- name: node_ids
SELECT key, id FROM tree_node
WHERE tree_id = %(tree_id)s AND live AND text IS NOT NULL AND key = ANY (%(keys)s)

-- name: leaf_ids
SELECT c.content_hash, min(c.id::text)::uuid FROM unnest(%(keys)s::text[]) AS h (hash)
JOIN chunk c ON c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(h.hash, 0)
     AND c.content_hash = h.hash AND c.live AND :is_of_files
GROUP BY 1

-- name: leaves_below
WITH RECURSIVE below AS (
    SELECT n.key AS top, c.child FROM tree_node n CROSS JOIN unnest(n.children) AS c (child)
    WHERE n.tree_id = %(tree_id)s AND n.live AND n.key = ANY (%(keys)s)
    UNION
    SELECT b.top, c.child FROM below b
    JOIN tree_node n ON n.tree_id = %(tree_id)s AND n.key = b.child AND n.live CROSS JOIN unnest(n.children) AS c (child)
)
SELECT b.top, b.child FROM below b
WHERE NOT EXISTS (SELECT FROM tree_node n WHERE n.tree_id = %(tree_id)s AND n.key = b.child)

-- name: paths
SELECT DISTINCT c.content_hash, f.path FROM unnest(%(keys)s::text[]) AS h (hash)
JOIN chunk c ON c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(h.hash, 0)
     AND c.content_hash = h.hash AND c.live AND :is_of_files
JOIN search_index_file f ON f.id = c.file_id

-- name: readable_summaries
-- all summaries except those with a text that no chunk of these files has, and the summaries above them
WITH RECURSIVE edge AS MATERIALIZED (
    SELECT n.key, c.child FROM tree_node n CROSS JOIN unnest(n.children) AS c (child)
    WHERE n.tree_id = %(tree_id)s AND n.live
), shown AS MATERIALIZED (
    SELECT DISTINCT e.child FROM edge e
    JOIN chunk c ON c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(e.child, 0)
         AND c.content_hash = e.child AND c.live AND :is_of_files
), hidden (key) AS (
    SELECT key FROM edge e WHERE NOT EXISTS (SELECT FROM edge i WHERE i.key = e.child)
      AND NOT EXISTS (SELECT FROM shown s WHERE s.child = e.child)
    UNION
    SELECT e.key FROM hidden h JOIN edge e ON e.child = h.key
)
SELECT key FROM edge EXCEPT SELECT key FROM hidden

-- name: summaries
SELECT id, key, level, text, children FROM tree_node
WHERE tree_id = %(tree_id)s AND live AND text IS NOT NULL
  AND (%(ids)s::uuid[] IS NULL OR id = ANY (%(ids)s)) AND (%(keys)s::text[] IS NULL OR key = ANY (%(keys)s))

-- name: top_level
SELECT coalesce(max(level), 0) FROM tree_node WHERE tree_id = %(tree_id)s AND live AND text IS NOT NULL

-- name: passing_chunks
SELECT DISTINCT ON (c.content_hash) c.content_hash, c.id
FROM unnest(%(hashes)s::text[]) AS h (hash)
JOIN chunk c ON c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(h.hash, 0)
     AND c.content_hash = h.hash AND c.live
JOIN search_index_file f ON f.id = c.file_id
WHERE :file_filters AND :chunk_filters
ORDER BY c.content_hash, f.path COLLATE "C", f.id_path, c.chunk_index, c.id
