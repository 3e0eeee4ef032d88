-- Drops what only releases before the first one used; a new database has none of it. Their last commit may run beside
-- this release, so columns that its statements name stay until the next release drops them: search_index_file.lease_until,
-- search_index_task.refreshed_at and search_index_change.paths_by. New databases lack them.

-- symbol_use is written directly
DROP TRIGGER IF EXISTS symbol_reference_written ON symbol_reference;
-- squawk-ignore ban-drop-function
DROP FUNCTION IF EXISTS write_symbol_reference();

-- search_index_file_smallest serves the claim
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX IF EXISTS search_index_file_pending;

-- the worker of a lease without an index has ended long ago; the table has a row for each worker
DELETE FROM file_lease WHERE index_id IS NULL;
-- squawk-ignore adding-not-nullable-field
ALTER TABLE file_lease ALTER COLUMN index_id SET NOT NULL;

-- indexes from before names were noted
INSERT INTO namespace_name (name, index_id, vector_store, keyword_index)
SELECT namespace, id, vector_store, keyword_index FROM search_index
ON CONFLICT (name) DO NOTHING;
