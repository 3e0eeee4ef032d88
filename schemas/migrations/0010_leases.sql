-- Whoever holds files is one row, renewed every second: to renew each file's own cost more than to index it.

CREATE TABLE file_lease (
    owner uuid PRIMARY KEY,
    until timestamptz NOT NULL
);
-- its index goes with it
ALTER TABLE search_index_file DROP COLUMN lease_until;
CREATE INDEX search_index_file_leased ON search_index_file (index_id, lease_owner) WHERE status = 'indexing';
