-- One row for each worker that holds files, renewed every second: renewing each file cost more than indexing it.

CREATE TABLE file_lease (
    owner uuid PRIMARY KEY,
    until timestamptz NOT NULL
);
-- lease_until stays, with its index, for workers of the previous release: they know no other lease
CREATE INDEX search_index_file_held ON search_index_file (index_id, lease_owner) WHERE status = 'indexing';
