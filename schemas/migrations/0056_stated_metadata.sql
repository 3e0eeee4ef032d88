-- Metadata that files, their sidecars and buckets state.

ALTER TABLE search_index_file
    -- values by what states them: `front_matter`, `s3`, or `sidecars` for the file that this one is beside; null: nothing
    ADD COLUMN stated jsonb;

-- A sidecar is a file that is read and not searched. No row of an earlier release has that reason.
-- squawk-ignore ban-drop-constraint
ALTER TABLE search_index_file DROP CONSTRAINT search_index_file_reason_check;
ALTER TABLE search_index_file ADD CONSTRAINT search_index_file_reason_check CHECK (
    reason IN ('empty', 'no_text', 'binary', 'too_large', 'unsupported_type', 'not_utf8', 'needs_ocr', 'encrypted',
        'minified', 'generated', 'secret', 'symlink', 'not_a_file', 'unreadable', 'parse_failed', 'embedding_refused',
        'cost_limit', 'store_refused', 'crashed', 'sidecar')
) NOT VALID;
