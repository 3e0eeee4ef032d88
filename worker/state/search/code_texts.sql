-- name: bounds
-- for this transaction
SELECT set_config('statement_timeout', %(milliseconds)s, true)

-- name: containing
-- Files with live text that contains these characters, by path, without those of some languages.
SELECT f.id, f.path, min(c.language) AS language
FROM chunk c JOIN search_index_file f ON f.id = c.file_id
WHERE c.index_id = %(index_id)s AND c.live AND c.level = 0 AND c.language IS NOT NULL
  AND c.language <> ALL (%(without)s::text[]) AND strpos(c.chunk_text, %(name)s) > 0 AND :is_selected
GROUP BY f.id ORDER BY f.path, f.id_path, f.id LIMIT %(limit)s

-- name: languages
SELECT f.id, f.path,
       (SELECT c.language FROM chunk c WHERE c.file_id = f.id AND c.live AND c.level = 0 LIMIT 1) AS language
FROM search_index_file f WHERE f.id = ANY (%(ids)s)

-- name: stored_uses
-- the lines of files that use a name, and those where definitions of it begin
SELECT file_id, line, false FROM symbol_reference WHERE index_id = %(index_id)s AND name = %(name)s AND file_id = ANY (%(ids)s)
UNION ALL
SELECT file_id, start_line, true FROM symbol WHERE index_id = %(index_id)s AND name = %(name)s AND file_id = ANY (%(ids)s)

-- name: outlines
-- the definitions of files, outer ones first
SELECT file_id, number, name, kind, scope, start_line, end_line, signature FROM symbol WHERE file_id = ANY (%(ids)s)
ORDER BY file_id, number

-- name: bases
-- the names from which the classes of files inherit
SELECT file_id, scope, name FROM symbol_reference
WHERE file_id = ANY (%(ids)s) AND kind = 'base' ORDER BY file_id, number

-- name: named
-- definitions of a name, in a scope ('': any), in a file (null: any)
SELECT s.file_id, s.number, s.name, s.kind, s.scope, s.start_line, s.end_line, s.signature
FROM symbol s JOIN search_index_file f ON f.id = s.file_id
WHERE s.index_id = %(index_id)s AND s.name = %(name)s
  AND (%(scope)s::text = '' OR starts_with(reverse('/' || s.scope), reverse('/' || %(scope)s::text)))
  AND (%(file)s::uuid IS NULL OR s.file_id = %(file)s) AND :is_selected
ORDER BY f.path COLLATE "C", f.id_path, s.number LIMIT %(limit)s

-- name: root_name
-- the name of the folder, with which the imports of a package begin that is indexed alone
SELECT coalesce(n.name, substring(rtrim(coalesce(i.source ->> 'path', i.source ->> 'prefix', ''), '/') FROM '[^/]*$'))
FROM search_index i LEFT JOIN content_node n ON n.project_id = i.project_id AND n.id = i.source ->> 'node_id'
WHERE i.id = %(index_id)s

-- name: at_paths
-- files of an index that have these paths, empty ones too
SELECT f.id, f.path FROM search_index_file f WHERE f.index_id = %(index_id)s AND f.path = ANY (%(paths)s) AND :is_selected

-- name: calls_of
-- calls of names
SELECT r.file_id, r.line, r.name, r.scope FROM symbol_reference r
WHERE r.index_id = %(index_id)s AND r.name = ANY (%(names)s) AND r.kind = 'call' AND :is_in_selected
ORDER BY r.file_id, r.number LIMIT %(limit)s

-- name: importing
-- files that import one of these modules, or one of these names with a sign that they may give it an alias
SELECT DISTINCT r.file_id FROM symbol_reference r
WHERE r.index_id = %(index_id)s AND r.name = ANY (%(names)s::text[] || %(modules)s::text[]) AND r.kind = 'import'
  AND :is_in_selected AND (r.name = ANY (%(modules)s) OR EXISTS (
      SELECT FROM chunk c WHERE c.file_id = r.file_id AND c.live AND c.level = 0
      AND (strpos(c.chunk_text, r.name || ' as ') > 0 OR strpos(c.chunk_text, r.name || ':') > 0)))
ORDER BY r.file_id LIMIT %(limit)s

-- name: calls_by
-- calls of names, each in one file
SELECT r.file_id, r.line, r.name, r.scope
FROM unnest(%(files)s::uuid[], %(names)s::text[]) AS a (file, name)
JOIN symbol_reference r ON r.index_id = %(index_id)s AND r.file_id = a.file AND r.name = a.name AND r.kind = 'call'
ORDER BY r.file_id, r.number

-- name: calls_in
-- calls in definitions, including nested ones; '0' is the character after '/'
SELECT DISTINCT r.file_id, r.line, r.name, r.scope
FROM unnest(%(files)s::uuid[], %(paths)s::text[], %(first)s::int[], %(last)s::int[]) AS a (file, path, first, last)
CROSS JOIN LATERAL (
    SELECT * FROM symbol_reference r
    WHERE r.file_id = a.file AND r.kind = 'call' AND r.line BETWEEN a.first AND a.last
      AND (r.scope = a.path OR r.scope > a.path || '/' AND r.scope < a.path || '0')) r
ORDER BY r.file_id, r.line, r.name LIMIT %(limit)s
