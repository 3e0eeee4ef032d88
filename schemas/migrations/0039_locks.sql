-- Locks of other sessions: work that stops although a row is locked, and who holds up others.

-- the open task that a cancel ends; until then no worker begins it
ALTER TABLE search_index ADD COLUMN stopping uuid;

-- whether workers pass over the task because its index or all its files are locked
ALTER TABLE search_index_task ADD COLUMN held boolean NOT NULL DEFAULT false;

-- Our own connections that hold up others while their client does nothing, as the sweep saw them. Empty after a crash.
CREATE UNLOGGED TABLE blocking_backend (
    pid integer PRIMARY KEY,
    -- identifies the transaction
    state text NOT NULL,
    since timestamptz NOT NULL
);
