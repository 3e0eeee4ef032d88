-- Automatic runs that list only what changed.

ALTER TABLE search_index_change
    -- the only paths that changed; null: any
    ADD COLUMN paths text[],
    -- the transaction that noted them; another writer of the row, such as an earlier release, may have meant more
    ADD COLUMN paths_by xid8;

-- the rows at and below a path; a whole key may be longer than a row of an index
CREATE INDEX search_index_file_key ON search_index_file (index_id, substr(key, 1, 512));
