-- Late writers meet something newer: each claim of a file has a number, and no namespace's name is used twice.

CREATE SEQUENCE claim_generation;

ALTER TABLE search_index_file
    -- the latest claim; 0 for files that only workers of the release before have claimed
    ADD COLUMN generation bigint NOT NULL DEFAULT 0,
    -- a claim that may have patched the store's rows to another place did not finish
    ADD COLUMN patch_pending boolean NOT NULL DEFAULT false;

-- Every name that was ever given to a namespace, and for how long to look whether a late writer made it again.
CREATE TABLE namespace_name (
    name text PRIMARY KEY,
    index_id uuid NOT NULL,
    vector_store text NOT NULL,
    keyword_index text NOT NULL,
    -- when the rows of its index were deleted
    retired_at timestamptz,
    -- null: not any more, or its index is there
    next_check_at timestamptz
);
CREATE INDEX namespace_name_check ON namespace_name (next_check_at) WHERE next_check_at IS NOT NULL;
INSERT INTO namespace_name (name, index_id, vector_store, keyword_index)
SELECT namespace, id, vector_store, keyword_index FROM search_index;

-- Checks of a namespace go on where the one before ended.
ALTER TABLE search_index ADD COLUMN check_cursor uuid;
