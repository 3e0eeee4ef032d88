-- Late writers meet something newer: each claim of a file has a number, and no namespace's name is used twice.

CREATE SEQUENCE claim_generation;

ALTER TABLE search_index_file
    -- the latest claim; 0 for files that only workers of the release before have claimed
    ADD COLUMN generation bigint NOT NULL DEFAULT 0,
    -- a claim that may have patched the store's rows to another place did not finish
    ADD COLUMN patch_pending boolean NOT NULL DEFAULT false;
