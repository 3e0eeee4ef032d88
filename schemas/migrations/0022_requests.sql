-- The request that led to a run, and the bytes of its files.

ALTER TABLE search_index_task
    -- ids as the log has them; null: no request led to the run, or to the run that follows it
    ADD COLUMN request_id text,
    ADD COLUMN rerun_request_id text,
    ADD COLUMN total_bytes bigint NOT NULL DEFAULT 0,
    -- of the files that are indexed, skipped or failed
    ADD COLUMN done_bytes bigint NOT NULL DEFAULT 0;
