-- name: definitions
-- definitions of a name, in a scope ('': any), in a file (null: any)
SELECT s.file_id, s.number, s.kind, s.scope, s.start_line, s.end_line
FROM symbol s JOIN search_index_file f ON f.id = s.file_id
WHERE s.index_id = %(index_id)s AND s.name = %(name)s
  AND (%(scope)s::text = '' OR starts_with(reverse('/' || s.scope), reverse('/' || %(scope)s::text)))
  AND (%(file)s::uuid IS NULL OR s.file_id = %(file)s)
ORDER BY f.path COLLATE "C", f.id_path, s.number LIMIT %(limit)s

-- name: callers
-- for each name, in a file (null: any), the definitions that contain its calls, each once
WITH asked AS (
    SELECT a.name, a.file, a.place
    FROM unnest(%(names)s::text[], %(files)s::uuid[]) WITH ORDINALITY AS a (name, file, place)
), used AS (
    SELECT a.place, r.file_id, r.scope, r.line FROM asked a CROSS JOIN LATERAL (
        SELECT * FROM symbol_reference r
        WHERE r.index_id = %(index_id)s AND r.name = a.name AND r.kind = 'call'
          AND (a.file IS NULL OR r.file_id = a.file) AND NOT r.file_id = ANY (%(without)s)
        ORDER BY r.file_id, r.number LIMIT %(considered)s) r
), stretch AS (
    SELECT place, file_id, scope, min(line) AS line, array_agg(line) AS lines FROM used GROUP BY place, file_id, scope
), edge AS (
    -- several definitions have the same path if a name is overloaded, or has a getter and a setter
    SELECT e.place, e.file_id, e.scope, s.number, coalesce(s.line, e.line) AS line
    FROM stretch e LEFT JOIN LATERAL (
        SELECT number, min(line) AS line FROM (
            SELECT DISTINCT ON (line) line, s.number
            FROM symbol s CROSS JOIN LATERAL unnest(e.lines) AS line
            WHERE s.index_id = %(index_id)s AND s.file_id = e.file_id AND s.name = substring(e.scope FROM '[^/]+/?$')
              AND concat_ws('/', nullif(s.scope, ''), s.name) = e.scope AND line BETWEEN s.start_line AND s.end_line
            ORDER BY line, s.start_line DESC, s.number) s
        GROUP BY number) s ON true
)
SELECT e.place, s.name, s.kind, nullif(s.scope, '') AS scope, s.number, f.path AS file_path, e.file_id,
       coalesce(s.start_line, e.line) AS start_line, coalesce(s.end_line, e.line) AS end_line, s.signature, e.line,
       (SELECT count(*) FROM (SELECT FROM symbol d WHERE d.index_id = %(index_id)s AND d.name = s.name
                              LIMIT %(counted)s) d) AS definitions,
       EXISTS (SELECT FROM used GROUP BY place HAVING count(*) = %(considered)s) AS more
FROM edge e JOIN search_index_file f ON f.id = e.file_id
LEFT JOIN symbol s ON s.file_id = e.file_id AND s.number = e.number
ORDER BY e.place, f.path, f.id_path, e.line, e.scope, e.number LIMIT %(limit)s

-- name: callees
-- What each definition calls, each name once, with the definition that is meant, if that is certain. '0' is the
-- character after '/'.
WITH asked AS (
    SELECT a.*
    FROM unnest(%(files)s::uuid[], %(paths)s::text[], %(first)s::int[], %(last)s::int[])
         WITH ORDINALITY AS a (file, path, first, last, place)
), used AS (
    SELECT a.place, a.file, r.name, r.line FROM asked a CROSS JOIN LATERAL (
        SELECT * FROM symbol_reference r
        WHERE r.file_id = a.file AND r.kind = 'call' AND r.line BETWEEN a.first AND a.last
          AND (r.scope = a.path OR r.scope > a.path || '/' AND r.scope < a.path || '0')
        ORDER BY r.number LIMIT %(considered)s) r
), edge AS (
    SELECT place, file, name, min(line) AS line FROM used GROUP BY place, file, name
)
SELECT e.place, e.name, s.kind, nullif(s.scope, '') AS scope, s.number, f.path AS file_path, s.file_id, s.start_line,
       s.end_line, s.signature, e.line, meant.definitions,
       EXISTS (SELECT FROM used GROUP BY place HAVING count(*) = %(considered)s) AS more
FROM edge e
CROSS JOIN LATERAL (
    -- a file that defines the name itself, other than as a method, means its own definition
    SELECT EXISTS (SELECT FROM symbol o WHERE o.index_id = %(index_id)s AND o.name = e.name AND o.file_id = e.file
                   AND o.kind <> 'method') AS own) near
CROSS JOIN LATERAL (
    SELECT count(*) AS definitions, (array_agg(d.file_id))[1] AS file_id, (array_agg(d.number))[1] AS number
    FROM (SELECT d.file_id, d.number FROM symbol d
          WHERE d.index_id = %(index_id)s AND d.name = e.name
            AND (NOT near.own OR (d.file_id = e.file AND d.kind <> 'method')) LIMIT %(counted)s) d) meant
LEFT JOIN symbol s ON meant.definitions = 1 AND s.file_id = meant.file_id AND s.number = meant.number
LEFT JOIN search_index_file f ON f.id = s.file_id
ORDER BY e.place, e.line, e.name LIMIT %(limit)s
