-- Whoever holds files is one row, renewed every second: to renew each file's own cost more than to index it.

CREATE TABLE file_lease (
    owner uuid PRIMARY KEY,
    until timestamptz NOT NULL
);
-- lease_until stays, with its index, for workers of the release before: they know of no other lease, and theirs hold
CREATE INDEX search_index_file_held ON search_index_file (index_id, lease_owner) WHERE status = 'indexing';
