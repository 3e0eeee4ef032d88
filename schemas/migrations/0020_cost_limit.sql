-- A limit on the tokens that a run pays for.

ALTER TABLE search_index_task
    -- the tool's limit when the run began; null: none
    ADD COLUMN max_cost_tokens bigint,
    -- tokens of requests that were sent under the limit, or are about to be
    ADD COLUMN spent_tokens bigint NOT NULL DEFAULT 0,
    -- whether some request would have passed the limit
    ADD COLUMN over_cost boolean NOT NULL DEFAULT false;

ALTER TABLE search_index_file
    DROP CONSTRAINT search_index_file_reason_check,
    ADD CONSTRAINT search_index_file_reason_check CHECK (reason IN ('empty', 'no_text', 'binary', 'too_large',
        'unsupported_type', 'not_utf8', 'needs_ocr', 'encrypted', 'minified', 'generated', 'symlink', 'not_a_file',
        'unreadable', 'parse_failed', 'embedding_refused', 'cost_limit', 'store_refused', 'crashed'));
