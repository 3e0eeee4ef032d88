-- How many workers serve an index is counted over the leases, of which there is one for each worker, not over the files.

-- null: the lease of a worker of the previous release
ALTER TABLE file_lease ADD COLUMN index_id uuid;
