-- What large installations keep of work that is done in parts.

-- One row: how far a pass over the embedding cache is that looks for vectors to evict.
CREATE TABLE embedding_cache_pass (
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    -- null: none has begun
    began timestamptz,
    -- the last entry that was looked at
    used_at timestamptz NOT NULL DEFAULT '1970-01-01Z',
    project_id text NOT NULL DEFAULT '',
    embedder text NOT NULL DEFAULT '',
    text_hash bytea NOT NULL DEFAULT '',
    -- entries of this pass whose text is live nowhere, and how many of them are too many
    spare bigint NOT NULL DEFAULT 0,
    excess bigint NOT NULL DEFAULT 0
);
