-- What a listing leaves out, and what a file is by its content.

ALTER TABLE search_index_task
    -- by rule, how much of the folder its last listing left out; a directory counts as one, whatever it holds
    ADD COLUMN ignored jsonb NOT NULL DEFAULT '{}';

ALTER TABLE search_index_file
    -- of the last change, as the source has it; milliseconds since 1970
    ADD COLUMN mtime_ms bigint,
    -- as the content tells; null until the file is read
    ADD COLUMN mime text,
    ADD COLUMN is_binary boolean,
    ADD COLUMN language text,
    DROP CONSTRAINT search_index_file_reason_check,
    ADD CONSTRAINT search_index_file_reason_check CHECK (reason IN ('empty', 'no_text', 'binary', 'too_large',
        'unsupported_type', 'not_utf8', 'needs_ocr', 'encrypted', 'minified', 'generated', 'symlink', 'not_a_file',
        'unreadable', 'parse_failed', 'embedding_refused', 'store_refused', 'crashed'));
