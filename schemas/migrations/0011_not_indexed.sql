-- Users look for files that are not indexed, which are usually a few among very many.

CREATE INDEX search_index_file_not_indexed ON search_index_file (index_id, path, id)
    WHERE status IN ('skipped', 'failed', 'removed');
