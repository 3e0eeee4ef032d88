-- Summary trees over indexes.

-- One tree for each index and config; the tools with that config share it.
CREATE TABLE summary_tree (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    project_id text NOT NULL,
    config jsonb NOT NULL,
    status text NOT NULL DEFAULT 'none'
        CHECK (status IN ('none', 'pending', 'indexing', 'indexed', 'error', 'cancelled')),
    -- raised by each build, cancel and delete: workers with another number write nothing more
    epoch bigint NOT NULL DEFAULT 1,
    -- what the build does next, at which level of the tree
    stage text NOT NULL DEFAULT 'leaves' CHECK (stage IN ('leaves', 'cluster', 'summarise', 'embed', 'publish')),
    level smallint NOT NULL DEFAULT 0,
    -- whether the build clusters every layer anew
    is_full boolean NOT NULL DEFAULT false,
    -- whether another build follows this one, and whether that one clusters anew
    rerun boolean NOT NULL DEFAULT false,
    rerun_full boolean NOT NULL DEFAULT false,
    -- the newest task over the index that a build took into account
    index_task_id uuid,
    owner uuid,
    lease_until timestamptz,
    sent_at timestamptz,
    -- workers that died of the build, and unexpected exceptions, since its last progress
    deaths integer NOT NULL DEFAULT 0,
    faults integer NOT NULL DEFAULT 0,
    -- clusters in a row that failed for the same reason
    failures integer NOT NULL DEFAULT 0,
    failure_reason text,
    expected_summaries integer NOT NULL DEFAULT 0,
    done_summaries integer NOT NULL DEFAULT 0,
    -- clusters that were left out, by reason
    skipped jsonb NOT NULL DEFAULT '{}',
    tokens_in bigint NOT NULL DEFAULT 0,
    tokens_out bigint NOT NULL DEFAULT 0,
    requests bigint NOT NULL DEFAULT 0,
    -- by layer, how many items were clustered anew and how many changed since
    fits jsonb NOT NULL DEFAULT '{}',
    warning text,
    error text,
    error_code text,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    -- when the tree that answers was completed; null: none yet
    built_at timestamptz
);
CREATE UNIQUE INDEX summary_tree_config ON summary_tree (index_id, md5(config::text));
CREATE INDEX summary_tree_open ON summary_tree (sent_at) WHERE status IN ('pending', 'indexing');
CREATE INDEX search_tool_raptor ON search_tool (index_id) WHERE config #>> '{raptor,enabled}' = 'true';

-- Texts at the bottom of a tree, by hash: those of the tree that answers, and those of the one being built.
CREATE TABLE tree_leaf (
    tree_id uuid NOT NULL REFERENCES summary_tree (id) ON DELETE CASCADE,
    hash text NOT NULL,
    live boolean NOT NULL DEFAULT false,
    building boolean NOT NULL DEFAULT true,
    PRIMARY KEY (tree_id, hash)
);

-- Summaries. A node whose children are the same in two builds is one row.
CREATE TABLE tree_node (
    id uuid PRIMARY KEY,
    tree_id uuid NOT NULL REFERENCES summary_tree (id) ON DELETE CASCADE,
    level smallint NOT NULL,
    -- the cluster's number in its layer, which stays when its members change
    slot integer NOT NULL,
    -- hash of model, prompt and children
    key text NOT NULL,
    -- hashes of leaves, or keys of nodes, in the order of the text
    children text[] NOT NULL,
    text text,
    text_hash text,
    -- why there is no summary
    skip_reason text,
    -- whether the store has the vector
    stored boolean NOT NULL DEFAULT false,
    live boolean NOT NULL DEFAULT false,
    building boolean NOT NULL DEFAULT true,
    UNIQUE (tree_id, key)
);
CREATE INDEX tree_node_level ON tree_node (tree_id, level, id);

-- Vectors of summaries to delete, as in chunk_tombstone.
CREATE TABLE tree_tombstone (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz
);
CREATE INDEX tree_tombstone_index ON tree_tombstone (index_id, created_at);

-- Summaries that were paid for.
CREATE TABLE summary_cache (
    project_id text NOT NULL,
    key text NOT NULL,
    tree_id uuid NOT NULL REFERENCES summary_tree (id) ON DELETE CASCADE,
    text text NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, key)
);
CREATE INDEX summary_cache_tree ON summary_cache (tree_id);
