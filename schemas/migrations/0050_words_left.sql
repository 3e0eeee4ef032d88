-- What is left of both steps of a run: files to read for their words, and vectors that are due.

ALTER TABLE search_index_task
    -- live chunks whose vector is due
    ADD COLUMN vectors_due bigint NOT NULL DEFAULT 0,
    -- bytes of the files that are searchable by words, skipped or failed; null: counted by a release that did not tell
    -- them from done_bytes
    ADD COLUMN searchable_bytes bigint,
    -- files that this task brought so far, and their bytes
    ADD COLUMN words_files bigint NOT NULL DEFAULT 0,
    ADD COLUMN words_bytes bigint NOT NULL DEFAULT 0;

ALTER TABLE search_index_task_delta
    ADD COLUMN due bigint NOT NULL DEFAULT 0,
    ADD COLUMN searchable_bytes bigint NOT NULL DEFAULT 0,
    ADD COLUMN words_files bigint NOT NULL DEFAULT 0,
    ADD COLUMN words_bytes bigint NOT NULL DEFAULT 0;
