-- name: chunk
-- conditions of a query's filters on a chunk c
    (%(languages)s::text[] IS NULL OR c.language = ANY (%(languages)s))
    AND (%(symbols)s::text[] IS NULL OR c.symbol = ANY (%(symbols)s) OR c.id = ANY (%(symbol_ids)s::uuid[]))
    AND (%(node_types)s::text[] IS NULL OR c.node_type = ANY (%(node_types)s))
    AND (%(scope)s::text IS NULL OR c.scope = %(scope)s OR starts_with(c.scope, %(scope)s || '/')
         OR c.id = ANY (%(scope_ids)s::uuid[]))
    AND (%(json_pointer)s::text IS NULL OR c.json_pointer = %(json_pointer)s
         OR starts_with(c.json_pointer, %(json_pointer)s || '/'))
    AND (%(level)s::int IS NULL OR c.level = %(level)s)

-- name: file
-- conditions on its file f
    (%(file_node_ids)s::text[] IS NULL OR coalesce(f.node_id, f.id::text) = ANY (%(file_node_ids)s))
    AND (%(id_paths)s::text[] IS NULL OR f.id_path = ANY (%(id_paths)s) OR f.id_path ^@ ANY (%(below)s::text[]))
    AND (%(folders)s::text[] IS NULL OR f.id_path ^@ ANY (%(folders)s::text[]))
    AND (%(endings)s::text[] IS NULL OR f.path LIKE ANY (%(endings)s::text[]))
    AND (%(types)s::text[] IS NULL OR f.type = ANY (%(types)s))
