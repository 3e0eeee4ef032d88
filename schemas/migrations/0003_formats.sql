-- Columns for documents of many formats: pages, more outcomes, symbols of code.

ALTER TABLE search_index_file
    DROP CONSTRAINT search_index_file_reason_check,
    ADD CONSTRAINT search_index_file_reason_check CHECK (reason IN ('empty', 'no_text', 'binary', 'too_large',
        'unsupported_type', 'not_utf8', 'needs_ocr', 'encrypted', 'symlink', 'not_a_file', 'unreadable', 'parse_failed',
        'embedding_refused', 'store_refused', 'crashed'));

ALTER TABLE chunk ADD COLUMN page integer;
