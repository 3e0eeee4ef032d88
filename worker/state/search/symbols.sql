-- name: clear
WITH gone AS (DELETE FROM symbol WHERE file_id = ANY (%(files)s))
DELETE FROM symbol_use WHERE file_id = ANY (%(files)s)

-- name: copy_symbols
COPY symbol (file_id, number, index_id, name, kind, scope, start_line, end_line, signature) FROM STDIN

-- name: copy_uses
COPY symbol_use (file_id, name, index_id, numbers, kinds, scopes, lines) FROM STDIN

-- name: definitions
SELECT s.name, s.kind, nullif(s.scope, '') AS scope, s.signature, s.start_line, s.end_line, s.file_id, s.number,
       coalesce(f.node_id, f.id::text) AS file_node_id, f.path AS file_path, f.id_path AS file_id_path
FROM symbol s JOIN search_index_file f ON f.id = s.file_id
WHERE s.index_id = %(index_id)s AND :is_selected
  AND (%(name)s::text IS NULL OR s.name = %(name)s)
  AND (%(scope)s::text = '' OR starts_with(reverse('/' || s.scope), reverse('/' || %(scope)s::text)))
  AND (%(first)s::text IS NULL OR s.name >= %(first)s)
  AND (%(last)s::text IS NULL OR s.name < %(last)s)
  AND (%(kind)s::text IS NULL OR s.kind = %(kind)s)
  AND (%(after_name)s::text IS NULL OR s.name >= %(after_name)s AND (s.name, f.path, f.id_path, s.file_id, s.number)
       > (%(after_name)s, %(after_path)s::text, %(after_id_path)s::text, %(after_file)s, %(after_number)s))
ORDER BY s.name, f.path, f.id_path, s.file_id, s.number LIMIT %(limit)s

-- name: outline
-- the definitions at and below a path
SELECT s.name, s.kind, nullif(s.scope, '') AS scope, s.signature, s.start_line, s.end_line, s.file_id, s.number,
       coalesce(f.node_id, f.id::text) AS file_node_id, f.path AS file_path, f.id_path AS file_id_path
FROM search_index_file f JOIN symbol s ON s.file_id = f.id
WHERE f.index_id = %(index_id)s AND :is_selected
  AND (%(path)s::text IS NULL OR f.path = %(path)s OR starts_with(f.path, %(path)s || '/'))
  AND (%(after_path)s::text IS NULL OR f.path >= %(after_path)s AND (f.path, f.id_path, s.file_id, s.number)
       > (%(after_path)s, %(after_id_path)s::text, %(after_file)s, %(after_number)s))
ORDER BY f.path, f.id_path, s.file_id, s.number LIMIT %(limit)s

-- name: has_path
SELECT EXISTS (SELECT FROM search_index_file f WHERE index_id = %(index_id)s AND status <> 'removed' AND :is_selected
               AND (path = %(path)s OR starts_with(path, %(path)s || '/')))

-- name: references
SELECT r.name, r.kind, nullif(r.scope, '') AS scope, r.line AS start_line, r.line AS end_line, r.file_id, r.number,
       coalesce(f.node_id, f.id::text) AS file_node_id, f.path AS file_path, f.id_path AS file_id_path
FROM (
    SELECT file_id, name, kind, scope, line, number FROM symbol_reference
    WHERE index_id = %(index_id)s AND (%(name)s::text IS NULL OR name = (
        -- a call has only the last part of a qualified name, an import of a module has all parts
        SELECT CASE WHEN EXISTS (
            SELECT FROM symbol_use WHERE index_id = %(index_id)s AND name = %(name)s AND :is_of_selected)
               THEN %(name)s::text ELSE %(last)s::text END))
    UNION ALL
    -- no file has as many uses as come before these
    SELECT a.file_id, %(last)s::text, a.kind, a.scope, a.line, 1000000 + a.place
    FROM unnest(%(added_file_id)s::uuid[], %(added_kind)s::text[], %(added_scope)s::text[], %(added_line)s::int[])
         WITH ORDINALITY AS a (file_id, kind, scope, line, place)
) r JOIN search_index_file f ON f.id = r.file_id
WHERE (%(kind)s::text IS NULL OR r.kind = %(kind)s) AND :is_selected
  AND (%(file)s::uuid IS NULL OR r.file_id = %(file)s)
  AND (%(scope)s::text IS NULL OR r.scope = %(scope)s OR starts_with(r.scope, %(scope)s || '/'))
  AND (%(after_file)s::uuid IS NULL OR (f.path, f.id_path, r.file_id, r.line, r.number)
       > (%(after_path)s::text, %(after_id_path)s::text, %(after_file)s, %(after_line)s, %(after_number)s))
ORDER BY f.path, f.id_path, r.file_id, r.line, r.number LIMIT %(limit)s

-- name: named
-- The best matches of each name: by scope, if it has one, then by case. Definitions that contain code come first,
-- because a variable may hold something that is defined elsewhere. A short definition whose only call has its own name
-- is left out if a longer one does more, because it leads there. A recursive one looks the same, but is seldom shorter
-- than a stub. The names take turns.
WITH asked AS (
    SELECT a.name, a.scope, a.place
    FROM unnest(%(names)s::text[], %(scopes)s::text[]) WITH ORDINALITY AS a (name, scope, place)
), found AS (
    SELECT s.*, a.place, rank() OVER (
        PARTITION BY a.place ORDER BY s.in_scope DESC, s.name = a.name DESC, s.kind IN ('constant', 'variable')) AS rank
    FROM asked a CROSS JOIN LATERAL (
        -- separately, because definitions in scope may be few among thousands
        (SELECT *, true AS in_scope FROM symbol
         WHERE index_id = %(index_id)s AND :is_of_selected AND lower(name) = lower(a.name COLLATE "C")
           AND a.scope <> '' AND starts_with(reverse('/' || scope), reverse('/' || a.scope))
         ORDER BY file_id, number LIMIT %(considered)s)
        UNION ALL
        (SELECT *, false FROM symbol WHERE index_id = %(index_id)s AND :is_of_selected AND lower(name) = lower(a.name COLLATE "C")
         ORDER BY file_id, number LIMIT %(considered)s)) s
), likeliest AS (
    SELECT d.*, CASE
        WHEN count(*) OVER (PARTITION BY d.place) NOT BETWEEN 2 AND %(limit)s OR d.end_line - d.start_line > %(thin)s THEN false
        WHEN 1 <> (
            SELECT count(*) FROM symbol_reference r
            WHERE r.index_id = d.index_id AND r.name = d.name AND r.file_id = d.file_id
              AND r.kind = 'call' AND r.line BETWEEN d.start_line AND d.end_line) THEN false
        ELSE NOT EXISTS (
            SELECT FROM symbol_reference r
            WHERE r.file_id = d.file_id AND r.name <> d.name
              AND r.kind = 'call' AND r.line BETWEEN d.start_line AND d.end_line) END AS is_thin
    FROM found d WHERE d.rank = 1
)
SELECT file_id, start_line, end_line, name, kind FROM (
    SELECT d.*, row_number() OVER (PARTITION BY d.place ORDER BY f.path COLLATE "C", f.id_path, d.number) AS turn
    FROM (SELECT *, max(end_line - start_line) FILTER (WHERE NOT is_thin) OVER (PARTITION BY place) AS longest
          FROM likeliest) d
    JOIN search_index_file f ON f.id = d.file_id
    WHERE NOT d.is_thin OR coalesce(d.longest <= d.end_line - d.start_line, true)) d
ORDER BY turn, place LIMIT %(limit)s

-- name: starting_chunks
-- Live chunks with the first line of definitions of these names. If scope is null, in any scope, but without chunks
-- that already have the name; otherwise only in this scope.
SELECT DISTINCT c.id FROM unnest(%(names)s::text[]) AS a (name)
CROSS JOIN LATERAL (
    SELECT file_id, start_line FROM symbol s
    WHERE s.index_id = %(index_id)s AND s.name = a.name AND (%(scope)s::text IS NULL OR s.scope = %(scope)s)
      AND :is_of_selected
    ORDER BY s.file_id, s.number LIMIT %(considered)s) d
JOIN chunk c ON c.file_id = d.file_id AND c.live AND d.start_line BETWEEN c.start_line AND c.end_line
WHERE %(scope)s::text IS NOT NULL OR c.symbol IS DISTINCT FROM a.name
ORDER BY c.id LIMIT %(limit)s
