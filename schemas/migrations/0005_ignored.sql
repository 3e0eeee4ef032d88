-- What a listing leaves out, and what a file's content shows.

ALTER TABLE search_index_task
    -- how much of the folder the last listing left out, by rule; a directory counts as one
    ADD COLUMN ignored jsonb NOT NULL DEFAULT '{}';

ALTER TABLE search_index_file
    -- time of the last change according to the source; milliseconds since 1970
    ADD COLUMN mtime_ms bigint,
    -- from the content; null until the file is read
    ADD COLUMN mime text,
    ADD COLUMN is_binary boolean,
    ADD COLUMN language text,
    DROP CONSTRAINT search_index_file_reason_check,
    ADD CONSTRAINT search_index_file_reason_check CHECK (reason IN ('empty', 'no_text', 'binary', 'too_large',
        'unsupported_type', 'not_utf8', 'needs_ocr', 'encrypted', 'minified', 'generated', 'symlink', 'not_a_file',
        'unreadable', 'parse_failed', 'embedding_refused', 'store_refused', 'crashed'));
