-- The paths of two requests as one: each once; null, which means the whole folder, if one of them is null, or if there
-- are more than `most` together.
CREATE FUNCTION joined_paths(paths text[], others text[], most integer) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN paths IS NOT NULL AND others IS NOT NULL AND count(DISTINCT e.path) <= most
                THEN coalesce(array_agg(DISTINCT e.path), '{}') END
    FROM unnest(paths || others) AS e (path)
$$;
