-- Failed deletes in a vector store, and attempts at a task that ended without a result.

-- An index whose upkeep failed or was not finished waits for its turn. A separate row, so that postponing it never
-- waits for a worker that finishes files.
CREATE TABLE search_index_upkeep (
    index_id uuid PRIMARY KEY REFERENCES search_index (id) ON DELETE CASCADE,
    -- failures in a row
    failures integer NOT NULL DEFAULT 0,
    after timestamptz NOT NULL
);
-- the tombstones of each index are looked up separately, oldest first
CREATE INDEX chunk_tombstone_index ON chunk_tombstone (index_id, created_at);

ALTER TABLE search_index_task
    -- owners that began to list, and neither made progress nor released the listing
    ADD COLUMN plan_dead uuid[] NOT NULL DEFAULT '{}',
    -- pages that the listing has recorded since it began, and the highest number so far: more than that is progress
    ADD COLUMN listed_pages integer NOT NULL DEFAULT 0,
    ADD COLUMN most_pages integer NOT NULL DEFAULT 0,
    -- unexpected exceptions of index slices since the last outcome of a file, and when one was last counted
    ADD COLUMN faults integer NOT NULL DEFAULT 0,
    ADD COLUMN fault_at timestamptz,
    -- the last unexpected exception
    ADD COLUMN fault text;
