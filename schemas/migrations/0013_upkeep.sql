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
    -- owners that began to list and neither came further nor gave the listing back
    ADD COLUMN plan_dead uuid[] NOT NULL DEFAULT '{}',
    -- pages that the listing has recorded since its beginning, and the most that one ever had: what is above it is progress
    ADD COLUMN listed_pages integer NOT NULL DEFAULT 0,
    ADD COLUMN most_pages integer NOT NULL DEFAULT 0,
    -- unexpected exceptions of index slices since a file last got an outcome, and when one was last counted
    ADD COLUMN faults integer NOT NULL DEFAULT 0,
    ADD COLUMN fault_at timestamptz,
    -- the last unexpected exception
    ADD COLUMN fault text;
