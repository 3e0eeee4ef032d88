-- Stores that others operate get keyed hashes of words, names and paths.

ALTER TABLE search_index
    -- id of the key of these hashes; null: the store has readable text
    ADD COLUMN text_key text;

-- The key that this installation made. BLIND_TOKEN_KEY takes its place.
CREATE TABLE text_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
