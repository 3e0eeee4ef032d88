-- Our own connections whose server process waits for the client, as last seen by the sweep. Empty after a crash.

CREATE UNLOGGED TABLE silent_backend (
    pid integer PRIMARY KEY,
    -- identifies the statement and the progress of a COPY: it changes if the client continues
    state text NOT NULL,
    since timestamptz NOT NULL
);
