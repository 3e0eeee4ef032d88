-- The words of a file are searchable before its vectors.

ALTER TABLE search_index_file
    -- live chunks that get a vector and lack it; they are marked as lost
    ADD COLUMN vectors_due integer NOT NULL DEFAULT 0,
    -- The live chunks are those of the content that was listed, and their words are searchable. What is left of an open
    -- file is to write the vectors that are due; of a failed one, the provider refused a text.
    ADD COLUMN awaits_vectors boolean NOT NULL DEFAULT false;

ALTER TABLE search_index_task
    -- files whose words are searchable as they were listed; null: counted by a release that did not tell them from
    -- indexed_files
    ADD COLUMN searchable_files bigint,
    -- live chunks that have their vector; null as above, for total_chunks
    ADD COLUMN vector_chunks bigint,
    -- when the words of all files were searchable; null before
    ADD COLUMN searchable_at timestamptz;

ALTER TABLE search_index_task_delta
    ADD COLUMN searchable bigint NOT NULL DEFAULT 0,
    ADD COLUMN vectors bigint NOT NULL DEFAULT 0;
