-- Small files first, and how long the rest takes.

-- same columns as the ORDER BY of the claim; search_index_file_pending stays for workers of the previous release
CREATE INDEX search_index_file_smallest ON search_index_file (index_id, size_bytes, id) WHERE status = 'pending';

ALTER TABLE search_index_task
    -- files that this task brought to an outcome, and their bytes
    ADD COLUMN worked_files bigint NOT NULL DEFAULT 0,
    ADD COLUMN worked_bytes bigint NOT NULL DEFAULT 0,
    -- when the counts had last changed before the first of them: about when work began
    ADD COLUMN worked_from timestamptz;

ALTER TABLE search_index_task_delta
    ADD COLUMN worked_files bigint NOT NULL DEFAULT 0,
    ADD COLUMN worked_bytes bigint NOT NULL DEFAULT 0;
