-- Deletes in a vector store that failed, and attempts at a task that ended without a result.

-- an index whose upkeep failed, or was not finished, waits for its turn; a row of its own, so that to put it off waits
-- for nobody who finishes files
CREATE TABLE search_index_upkeep (
    index_id uuid PRIMARY KEY REFERENCES search_index (id) ON DELETE CASCADE,
    -- failures in a row
    failures integer NOT NULL DEFAULT 0,
    after timestamptz NOT NULL
);
-- each index's tombstones are looked for by themselves, oldest first
CREATE INDEX chunk_tombstone_index ON chunk_tombstone (index_id, created_at);

ALTER TABLE search_index_task
    -- lease owners that began a listing and died since the cursor last moved
    ADD COLUMN plan_dead uuid[] NOT NULL DEFAULT '{}',
    -- unexpected exceptions of index slices since a file last got an outcome
    ADD COLUMN faults integer NOT NULL DEFAULT 0,
    -- the last unexpected exception of either
    ADD COLUMN fault text;
