-- name: capture_leaves
-- the distinct texts that have a vector; those that still wait for one are paid for by a task, within its limit
WITH texts AS (
    SELECT DISTINCT content_hash AS hash FROM chunk
    WHERE index_id = %(index_id)s AND live AND embedded AND NOT lost
), dropped AS (
    UPDATE tree_leaf l SET building = false
    WHERE l.tree_id = %(tree_id)s AND l.building AND NOT EXISTS (SELECT FROM texts t WHERE t.hash = l.hash)
)
INSERT INTO tree_leaf (tree_id, hash) SELECT %(tree_id)s, hash FROM texts
ON CONFLICT (tree_id, hash) DO UPDATE SET building = true

-- name: count_leaves
SELECT count(*) FILTER (WHERE building), count(*) FILTER (WHERE building <> live) FROM tree_leaf
WHERE tree_id = %(tree_id)s

-- name: start_nodes
UPDATE tree_node SET building = false WHERE tree_id = %(tree_id)s AND building

-- name: leaves
-- in the order of the files; of equal texts the first one
SELECT d.hash, d.id, d.path FROM (
    SELECT DISTINCT ON (c.content_hash) c.content_hash AS hash, c.id, f.path, f.id_path, c.chunk_index
    FROM tree_leaf l
    JOIN chunk c ON c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(l.hash, 0)
         AND c.content_hash = l.hash AND c.live AND c.embedded AND NOT c.lost
    JOIN search_index_file f ON f.id = c.file_id
    WHERE l.tree_id = %(tree_id)s AND l.building
    ORDER BY c.content_hash, f.path COLLATE "C", f.id_path, c.chunk_index) d
ORDER BY string_to_array(d.path, '/') COLLATE "C", d.path, d.id_path, d.chunk_index

-- name: nodes
-- summaries of a level that the build has, with a vector
SELECT id, key, slot, children, text_hash FROM tree_node
WHERE tree_id = %(tree_id)s AND level = %(level)s AND building AND stored ORDER BY slot, key

-- name: kept_clusters
-- the members of a level's clusters in the current tree
SELECT slot, children FROM tree_node WHERE tree_id = %(tree_id)s AND level = %(level)s AND live ORDER BY slot, key

-- name: slots
-- the slots of a level's nodes, in both trees
SELECT key, slot FROM tree_node WHERE tree_id = %(tree_id)s AND level = %(level)s

-- name: plan
INSERT INTO tree_node (id, tree_id, level, slot, key, children)
SELECT p.id, %(tree_id)s, %(level)s, p.slot, p.key, string_to_array(p.children, ' ')
FROM unnest(%(ids)s::uuid[], %(slots)s::int[], %(keys)s::text[], %(children)s::text[]) AS p (id, slot, key, children)
ON CONFLICT (tree_id, key) DO UPDATE SET building = true,
    -- a cluster that was left out is tried again
    skip_reason = NULL

-- name: unsummarised
SELECT id, key, children FROM tree_node
WHERE tree_id = %(tree_id)s AND level = %(level)s AND building AND text IS NULL AND skip_reason IS NULL ORDER BY slot, key
LIMIT %(limit)s

-- name: leaf_texts
SELECT DISTINCT ON (c.content_hash) c.content_hash, f.type, c.chunk_text
FROM unnest(%(hashes)s::text[]) AS h (hash)
JOIN chunk c ON c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(h.hash, 0)
     AND c.content_hash = h.hash AND c.live
JOIN search_index_file f ON f.id = c.file_id
ORDER BY c.content_hash, f.path COLLATE "C", f.id_path, c.chunk_index, c.id

-- name: node_texts
SELECT key, text FROM tree_node WHERE tree_id = %(tree_id)s AND key = ANY (%(keys)s) AND text IS NOT NULL

-- name: keep_text
UPDATE tree_node SET text = %(text)s, text_hash = %(text_hash)s, skip_reason = %(skip_reason)s
WHERE id = %(id)s AND tree_id = %(tree_id)s

-- name: cached
UPDATE summary_cache SET used_at = now() WHERE project_id = %(project_id)s AND key = %(key)s RETURNING text

-- name: cache
INSERT INTO summary_cache (project_id, key, tree_id, text)
SELECT %(project_id)s, %(key)s, id, %(text)s FROM summary_tree WHERE id = %(tree_id)s
ON CONFLICT (project_id, key) DO NOTHING

-- name: forget_old
-- summaries of texts that were edited long ago
DELETE FROM summary_cache WHERE tree_id = %(tree_id)s AND used_at < now() - interval '30 days'

-- name: unstored
SELECT id, text, text_hash FROM tree_node
WHERE tree_id = %(tree_id)s AND level = %(level)s AND building AND text IS NOT NULL AND NOT stored ORDER BY slot, key
LIMIT %(limit)s

-- name: stored
UPDATE tree_node SET stored = true WHERE id = ANY (%(ids)s)

-- name: refused
UPDATE tree_node SET skip_reason = %(reason)s, text = NULL, text_hash = NULL WHERE id = ANY (%(ids)s)

-- name: bury_old
-- rows that neither tree has any more
WITH gone AS (
    DELETE FROM tree_node n WHERE n.tree_id = %(tree_id)s AND NOT n.building RETURNING n.id
)
INSERT INTO tree_tombstone (id, index_id) SELECT id, %(index_id)s FROM gone ON CONFLICT DO NOTHING

-- name: show_nodes
UPDATE tree_node SET live = true WHERE tree_id = %(tree_id)s AND NOT live

-- name: drop_leaves
DELETE FROM tree_leaf WHERE tree_id = %(tree_id)s AND NOT building

-- name: show_leaves
UPDATE tree_leaf SET live = true WHERE tree_id = %(tree_id)s AND NOT live

-- name: end_building
-- After an abandoned build, its own rows are deleted, and the current tree stays.
WITH gone AS (
    DELETE FROM tree_node n WHERE n.tree_id = %(tree_id)s AND NOT n.live RETURNING n.id
), leaves AS (
    DELETE FROM tree_leaf WHERE tree_id = %(tree_id)s AND NOT live
)
INSERT INTO tree_tombstone (id, index_id)
SELECT g.id, t.index_id FROM gone g JOIN summary_tree t ON t.id = %(tree_id)s ON CONFLICT DO NOTHING

-- name: reset_building
UPDATE tree_leaf SET building = true WHERE tree_id = %(tree_id)s AND NOT building

-- name: lost_leaves
SELECT c.content_hash, f.type, coalesce(f.live_path, f.path), c.context, c.chunk_text
FROM chunk c CROSS JOIN :file_by_id WHERE c.id = ANY (%(ids)s)

-- name: count_unsummarised
SELECT count(*) FROM tree_node
WHERE tree_id = %(tree_id)s AND level = %(level)s AND building AND text IS NULL AND skip_reason IS NULL

-- name: unpaid
-- clusters of the first level that have neither a summary nor a cached one, with the tokens of their texts
SELECT count(DISTINCT n.id), coalesce(sum(c.tokens), 0)::bigint
FROM tree_node n CROSS JOIN unnest(n.children) AS u (hash) CROSS JOIN LATERAL (
    SELECT max(c.tokens_estimate) AS tokens FROM chunk c
    WHERE c.index_id = %(index_id)s AND hashtextextended(c.content_hash, 0) = hashtextextended(u.hash, 0)
      AND c.content_hash = u.hash AND c.live) c
WHERE n.tree_id = %(tree_id)s AND n.level = 1 AND n.building AND n.text IS NULL AND n.skip_reason IS NULL
  AND NOT EXISTS (SELECT FROM summary_cache s WHERE s.project_id = %(project_id)s AND s.key = n.key)

-- name: first_leaves
-- the leaves below each summary of a level
WITH RECURSIVE below AS (
    SELECT n.key, c.child, n.level FROM tree_node n CROSS JOIN unnest(n.children) AS c (child)
    WHERE n.tree_id = %(tree_id)s AND n.level = %(level)s AND n.building
    UNION
    SELECT b.key, c.child, n.level FROM below b
    JOIN tree_node n ON n.tree_id = %(tree_id)s AND n.key = b.child CROSS JOIN unnest(n.children) AS c (child)
)
SELECT key, array_agg(child) FROM below WHERE level = 1 GROUP BY key
