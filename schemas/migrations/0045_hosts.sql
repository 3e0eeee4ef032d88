-- The processes of Foldex on all machines, and the work that one of them leaves to others.

CREATE TABLE host_process (
    -- of one start of a process
    id uuid PRIMARY KEY,
    host_id text NOT NULL CHECK (length(host_id) <= 64),
    host_name text NOT NULL CHECK (length(host_name) <= 64),
    role text NOT NULL CHECK (role IN ('api', 'worker', 'beat', 'watch')),
    -- its name, of a worker the one that Celery knows
    node text NOT NULL CHECK (length(node) <= 200),
    -- the queues that a worker takes messages from
    queues text[] NOT NULL,
    release text NOT NULL CHECK (length(release) <= 64),
    needed_schema text NOT NULL CHECK (length(needed_schema) <= 64),
    -- hashes of settings by name, null for one that is not set, and a hash of all of them
    settings jsonb NOT NULL,
    settings_digest text NOT NULL CHECK (length(settings_digest) <= 64),
    -- roots, models and stores, as they are
    shown jsonb NOT NULL CHECK (length(shown::text) <= 20000),
    -- the services that it tried to reach, each with what failed, or null if nothing did
    reached jsonb NOT NULL DEFAULT '{}' CHECK (length(reached::text) <= 20000),
    -- by how much its clock is ahead of Postgres', and how wrong that may be
    clock_seconds float8 NOT NULL,
    clock_doubt_seconds float8 NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- A task or a build of a tree that a worker cannot do, such as for a missing setting, while another one may.
CREATE TABLE declined_work (
    work_id uuid NOT NULL,
    process_id uuid NOT NULL REFERENCES host_process (id) ON DELETE CASCADE,
    declined_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (work_id, process_id)
);
CREATE INDEX declined_work_process ON declined_work (process_id);
