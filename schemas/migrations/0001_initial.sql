-- Content, indexes, tools, tasks, files and chunks.

CREATE TABLE content_node (
    project_id text NOT NULL,
    id text NOT NULL,
    parent_id text,
    -- "/" and the ids from the project's root down to this node; the API updates it when a node moves
    id_path text COLLATE "C" NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    -- inline content of a JSON node; json preserves the order of keys, unlike jsonb
    json json,
    -- key in the object store, for all other content
    object_key text,
    size_bytes bigint NOT NULL DEFAULT 0,
    -- increases with each change of content: the stamp of the nodes source
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, id),
    FOREIGN KEY (project_id, parent_id) REFERENCES content_node (project_id, id) ON DELETE CASCADE
);
CREATE INDEX content_node_tree ON content_node (project_id, id_path);
CREATE INDEX content_node_parent ON content_node (project_id, parent_id);

CREATE TABLE api_key (
    id uuid PRIMARY KEY,
    project_id text NOT NULL,
    name text NOT NULL,
    key_hash bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);

CREATE TABLE search_index (
    id uuid PRIMARY KEY,
    project_id text NOT NULL,
    -- hash of everything that makes two tools share an index
    identity text NOT NULL,
    source jsonb NOT NULL,
    folder_node_id text,
    settings jsonb NOT NULL,
    vector_store text NOT NULL CHECK (vector_store IN ('turbopuffer', 'lancedb')),
    keyword_index text NOT NULL CHECK (keyword_index IN ('postgres', 'store')),
    namespace text NOT NULL UNIQUE,
    epoch bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- if set, this row is a tombstone that reserves the namespace's name until late writes are impossible
    deleted_at timestamptz
);
CREATE UNIQUE INDEX search_index_identity ON search_index (project_id, identity) WHERE deleted_at IS NULL;
CREATE INDEX search_index_deleted ON search_index (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE search_tool (
    id uuid PRIMARY KEY,
    project_id text NOT NULL,
    name text NOT NULL,
    index_id uuid NOT NULL REFERENCES search_index (id),
    node_id text,
    source jsonb NOT NULL,
    config jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX search_tool_project ON search_tool (project_id, created_at, id);
CREATE INDEX search_tool_index ON search_tool (index_id);

CREATE TABLE search_index_task (
    id uuid PRIMARY KEY,
    -- the tool that requested the task; no foreign key, so that the history of an index outlives the tool
    tool_id uuid NOT NULL,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    folder_node_id text,
    kind text NOT NULL CHECK (kind IN ('create', 'reindex')),
    status text NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'indexing', 'ready', 'error', 'cancelled')),
    total_files bigint NOT NULL DEFAULT 0,
    indexed_files bigint NOT NULL DEFAULT 0,
    skipped_files bigint NOT NULL DEFAULT 0,
    failed_files bigint NOT NULL DEFAULT 0,
    removed_files bigint NOT NULL DEFAULT 0,
    held_removals bigint NOT NULL DEFAULT 0,
    total_chunks bigint NOT NULL DEFAULT 0,
    embedded_chunks bigint NOT NULL DEFAULT 0,
    reused_chunks bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    progress double precision NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    warning text,
    error text,
    -- the epoch of the index while this task is the one that may write
    epoch bigint,
    listing boolean NOT NULL DEFAULT true,
    list_cursor text,
    -- keys below which the source could not be listed: no file there counts as vanished
    unlisted bytea[] NOT NULL DEFAULT '{}',
    rerun boolean NOT NULL DEFAULT false,
    allow_removals boolean NOT NULL DEFAULT false,
    plan_owner uuid,
    plan_until timestamptz,
    -- when a message was last sent for this task; the sweep repeats lost ones
    sent_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz
);
CREATE UNIQUE INDEX search_index_task_open ON search_index_task (index_id) WHERE status IN ('pending', 'indexing');
CREATE INDEX search_index_task_index ON search_index_task (index_id, created_at DESC);
CREATE INDEX idx_search_index_task_folder_node_id ON search_index_task (folder_node_id)
    WHERE folder_node_id IS NOT NULL;

-- files that the running task has seen; a logged table, because an empty one after a crash would mean "all vanished"
CREATE TABLE search_index_listing (
    task_id uuid NOT NULL REFERENCES search_index_task (id) ON DELETE CASCADE,
    file_id uuid NOT NULL,
    PRIMARY KEY (task_id, file_id)
);

CREATE TABLE search_index_file (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    key bytea NOT NULL,
    path text NOT NULL,
    id_path text NOT NULL,
    node_id text,
    type text,
    size_bytes bigint NOT NULL,
    -- the live content; only finish writes it
    live_fingerprint text,
    live_path text,
    live_id_path text,
    live_chunks integer NOT NULL DEFAULT 0,
    live_tokens bigint NOT NULL DEFAULT 0,
    -- the current work
    task_id uuid NOT NULL,
    stamp text NOT NULL,
    code_version text NOT NULL,
    listed_reason text,
    -- read: read and index it; path: only its path changed; remove: the source no longer has it
    work text NOT NULL DEFAULT 'read' CHECK (work IN ('read', 'path', 'remove')),
    status text NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'indexing', 'indexed', 'skipped', 'failed', 'removed')),
    reason text CHECK (reason IN ('empty', 'no_text', 'binary', 'too_large', 'unsupported_type', 'not_utf8', 'symlink',
        'not_a_file', 'unreadable', 'parse_failed', 'embedding_refused', 'store_refused', 'crashed')),
    message text,
    attempts integer NOT NULL DEFAULT 0,
    lease_owner uuid,
    lease_until timestamptz,
    embedded_chunks integer NOT NULL DEFAULT 0,
    reused_chunks integer NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    timings jsonb NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
CREATE INDEX search_index_file_path ON search_index_file (index_id, path, id);
CREATE INDEX search_index_file_node ON search_index_file (index_id, node_id) WHERE node_id IS NOT NULL;
-- same columns as the ORDER BY of the claim
CREATE INDEX search_index_file_pending ON search_index_file (index_id, id) WHERE status = 'pending';
CREATE INDEX search_index_file_leased ON search_index_file (index_id, lease_until) WHERE status = 'indexing';

CREATE TABLE chunk (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL,
    file_id uuid NOT NULL REFERENCES search_index_file (id) ON DELETE CASCADE,
    live boolean NOT NULL DEFAULT false,
    chunk_index integer NOT NULL,
    json_pointer text,
    chunk_text text NOT NULL,
    context text NOT NULL,
    -- text of the file before the first chunk, between two, and after the last one: completes the text of the file
    lead text NOT NULL,
    trail text NOT NULL,
    content_hash text NOT NULL,
    tokens_estimate integer NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    start_char integer NOT NULL,
    end_char integer NOT NULL,
    title text,
    symbol text,
    node_type text,
    scope text,
    language text,
    level smallint NOT NULL DEFAULT 0,
    embedded boolean NOT NULL DEFAULT true,
    -- set if KEYWORD_INDEX=postgres
    keywords tsvector
) WITH (fillfactor = 80);
CREATE INDEX chunk_file ON chunk (file_id, chunk_index);
CREATE INDEX chunk_index_ids ON chunk (index_id, id);
CREATE INDEX chunk_keywords ON chunk USING gin (keywords) WHERE keywords IS NOT NULL;

CREATE TABLE chunk_tombstone (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- the store confirmed a first delete; a second one follows when late writes are no longer possible
    deleted_at timestamptz
);
CREATE INDEX chunk_tombstone_age ON chunk_tombstone (created_at);

CREATE TABLE embedding_cache (
    project_id text NOT NULL,
    embedder text NOT NULL,
    text_hash bytea NOT NULL,
    vector bytea NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, embedder, text_hash)
);
