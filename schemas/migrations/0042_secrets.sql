-- Files that hold nothing but secrets are skipped.

ALTER TABLE search_index_file
    DROP CONSTRAINT search_index_file_reason_check,
    ADD CONSTRAINT search_index_file_reason_check CHECK (reason IN ('empty', 'no_text', 'binary', 'too_large',
        'unsupported_type', 'not_utf8', 'needs_ocr', 'encrypted', 'minified', 'generated', 'secret', 'symlink',
        'not_a_file', 'unreadable', 'parse_failed', 'embedding_refused', 'cost_limit', 'store_refused', 'crashed'));
