-- The files that somebody asks for are those that are not indexed, mostly a few among very many.

CREATE INDEX search_index_file_not_indexed ON search_index_file (index_id, path, id)
    WHERE status IN ('skipped', 'failed', 'removed');
