-- What keys allow and until when, and whether they are in use. Keys of older releases allow everything.

ALTER TABLE api_key
    ADD COLUMN scopes text[] NOT NULL DEFAULT '{admin}',
    ADD COLUMN expires_at timestamptz,
    -- to the minute
    ADD COLUMN last_used_at timestamptz,
    -- the key that was made when this one was rotated
    ADD COLUMN replaced_by uuid;
