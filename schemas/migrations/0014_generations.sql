-- Protection against late writers: each claim of a file has a number, and no namespace name is used twice.

CREATE SEQUENCE claim_generation;

ALTER TABLE search_index_file
    -- number of the latest claim; 0 for files that only workers of the previous release have claimed
    ADD COLUMN generation bigint NOT NULL DEFAULT 0,
    -- an unfinished claim may have patched the store's rows to another path
    ADD COLUMN patch_pending boolean NOT NULL DEFAULT false;

-- Every name that a namespace ever had, and how long to check whether a late writer recreated it.
CREATE TABLE namespace_name (
    name text PRIMARY KEY,
    index_id uuid NOT NULL,
    vector_store text NOT NULL,
    keyword_index text NOT NULL,
    -- when the rows of its index were deleted
    retired_at timestamptz,
    -- null: no more checks, or the index still exists
    next_check_at timestamptz
);
CREATE INDEX namespace_name_check ON namespace_name (next_check_at) WHERE next_check_at IS NOT NULL;
INSERT INTO namespace_name (name, index_id, vector_store, keyword_index)
SELECT namespace, id, vector_store, keyword_index FROM search_index;

-- Checks of a namespace continue where the previous one ended.
ALTER TABLE search_index ADD COLUMN check_cursor uuid;
