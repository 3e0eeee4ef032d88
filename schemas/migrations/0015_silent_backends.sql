-- Connections of ours whose server process waits for the client, as the sweep last saw them. After a crash it is empty.

CREATE UNLOGGED TABLE silent_backend (
    pid integer PRIMARY KEY,
    -- which statement it is, and how far a COPY has come: a client that goes on changes it
    state text NOT NULL,
    since timestamptz NOT NULL
);
