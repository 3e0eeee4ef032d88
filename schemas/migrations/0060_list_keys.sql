-- The entries of a list with their project, by which an index finds the lists that admit a caller.

CREATE FUNCTION acl_keys(project_id text, entries text[]) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT
RETURN (SELECT array_agg(project_id || E'\n' || entry) FROM unnest(entries) AS e (entry));
