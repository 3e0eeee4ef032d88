-- Which machine's folder an index of a local folder is of, and machines that do not see that folder.

CREATE TABLE indexed_folder (
    index_id uuid PRIMARY KEY REFERENCES search_index (id) ON DELETE CASCADE,
    path text NOT NULL,
    -- the machine that listed it last, and what it saw there: another machine that shares the folder sees the same
    host_id text NOT NULL,
    host_name text NOT NULL,
    inode text NOT NULL,
    -- the kernel and the device, which containers of one machine share; null where the system does not tell
    place text,
    changed_ns bigint NOT NULL,
    listed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX indexed_folder_path ON indexed_folder (path);

CREATE TABLE folder_refusal (
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    host_id text NOT NULL,
    host_name text NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (index_id, host_id)
);

-- When workers of a machine ran last, for longer than the registry of hosts remembers it.
CREATE TABLE folder_host (
    host_id text PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT now()
);
