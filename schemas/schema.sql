-- The tables that every database begins with. `migrations/` holds what came later.

-- Content that users store in Foldex itself: a tree of folders, files and JSON nodes for each project.
CREATE TABLE content_node (
    project_id text NOT NULL,
    id text NOT NULL,
    parent_id text,
    -- "/" and the ids from the project's root down to this node; the API updates it when a node moves
    id_path text COLLATE "C" NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    -- content of a JSON node; json preserves the order of keys, unlike jsonb
    json json,
    -- key in the object store, for all other content
    object_key text,
    size_bytes bigint NOT NULL DEFAULT 0,
    -- increases with each change of content: the stamp of the nodes source
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- where the node can be opened in a browser; hits of its text name it
    url text,
    PRIMARY KEY (project_id, id),
    FOREIGN KEY (project_id, parent_id) REFERENCES content_node (project_id, id) ON DELETE CASCADE
);
CREATE INDEX content_node_tree ON content_node (project_id, id_path);
CREATE INDEX content_node_object ON content_node (object_key) WHERE object_key IS NOT NULL;
-- by hash, because a name may be longer than an index row
CREATE INDEX content_node_name ON content_node (project_id, parent_id, hashtextextended(name, 0));
-- the nodes of a folder in order
CREATE INDEX content_node_order ON content_node (project_id, parent_id, left(name, 200) COLLATE "C");

-- Objects that no node refers to yet, or any more. The row is written before the object is stored. The transaction that
-- makes a node refer to the object removes the row. If a process dies in between, the sweep deletes the object.
CREATE TABLE content_stray (
    key text PRIMARY KEY,
    due_at timestamptz NOT NULL,
    -- the sweep is deleting the object: from now on no node may refer to it
    given_up boolean NOT NULL DEFAULT false
);
CREATE INDEX content_stray_due ON content_stray (due_at);

-- Keys with which callers prove their project.
CREATE TABLE api_key (
    id uuid PRIMARY KEY,
    project_id text NOT NULL,
    name text NOT NULL,
    key_hash bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);

-- The places outside its own content tree that a project may read.
CREATE TABLE source_grant (
    project_id text NOT NULL,
    -- an absolute path, or s3://bucket/prefix/
    place text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- where the path led when it was granted; null: a bucket, or a folder whose real path is noted when it is first opened
    real_place text,
    PRIMARY KEY (project_id, place)
);

-- What is indexed, and how. Tools with the same source and settings share an index.
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
    -- raised by each task: workers with another number write nothing more
    epoch bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- if set, this row is a tombstone that reserves the namespace's name until late writes are impossible
    deleted_at timestamptz,
    -- when the namespace was last compared with the rows; null: the sweep should compare it now
    checked_at timestamptz DEFAULT now(),
    -- where an unfinished comparison continues
    check_cursor uuid,
    -- how often it is compared, less often where nothing happens; null until the next comparison
    check_every interval,
    -- the open task that a cancel ends; until then no worker begins it
    stopping uuid,
    -- id of the key of its hashes; null: the store has readable text
    text_key text
);
CREATE UNIQUE INDEX search_index_identity ON search_index (project_id, identity) WHERE deleted_at IS NULL;
CREATE INDEX search_index_deleted ON search_index (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX search_index_checked ON search_index (checked_at) WHERE deleted_at IS NULL;

-- Every name that a namespace ever had: none is used twice, and late writers that recreate one are noticed.
CREATE TABLE namespace_name (
    name text PRIMARY KEY,
    index_id uuid NOT NULL,
    vector_store text NOT NULL,
    keyword_index text NOT NULL,
    -- when the rows of its index were deleted
    retired_at timestamptz,
    -- null: no more checks, or the index still exists
    next_check_at timestamptz
);
CREATE INDEX namespace_name_check ON namespace_name (next_check_at) WHERE next_check_at IS NOT NULL;

-- Changes of the folders that indexes follow. A separate row, so that noting a change never waits for finishing files.
CREATE TABLE search_index_change (
    index_id uuid PRIMARY KEY REFERENCES search_index (id) ON DELETE CASCADE,
    -- the first change that no run covers; null if runs cover all
    since timestamptz,
    -- when a run should cover the changes, after a quiet period
    due_at timestamptz,
    -- when a change last started a run, and the earliest time at which a watch may start the next one
    ran_at timestamptz,
    rest_until timestamptz,
    -- what the watch last saw of a content tree
    seen text,
    -- the only paths that changed; null: any
    paths text[]
);
CREATE INDEX search_index_change_due ON search_index_change (due_at) WHERE due_at IS NOT NULL;

-- An index whose upkeep failed or was not finished waits for its turn. A separate row, so that postponing it never
-- waits for a worker that finishes files.
CREATE TABLE search_index_upkeep (
    index_id uuid PRIMARY KEY REFERENCES search_index (id) ON DELETE CASCADE,
    -- failures in a row
    failures integer NOT NULL DEFAULT 0,
    after timestamptz NOT NULL
);

-- What users create and search: a name, a source and a config over an index.
CREATE TABLE search_tool (
    id uuid PRIMARY KEY,
    project_id text NOT NULL,
    name text NOT NULL,
    index_id uuid NOT NULL REFERENCES search_index (id),
    node_id text,
    source jsonb NOT NULL,
    config jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- the index that is built beside the present one, and its config
    next_index_id uuid REFERENCES search_index (id),
    next_config jsonb,
    -- why the last change of the config, or the last renewal of its texts, failed
    update_error text,
    -- when the clock starts the next run
    next_run_at timestamptz
);
CREATE INDEX search_tool_project ON search_tool (project_id, created_at, id);
CREATE INDEX search_tool_index ON search_tool (index_id);
CREATE INDEX search_tool_next_index ON search_tool (next_index_id) WHERE next_index_id IS NOT NULL;
CREATE INDEX search_tool_next_run ON search_tool (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX search_tool_following ON search_tool (project_id)
    WHERE config ->> 'auto_reindex' = 'true' OR config ->> 'watch' = 'true';
CREATE INDEX search_tool_raptor ON search_tool (index_id) WHERE config #>> '{raptor,enabled}' = 'true';

-- One run over an index: it lists the folder, and brings each file to an outcome.
CREATE TABLE search_index_task (
    id uuid PRIMARY KEY,
    -- the tool that requested the task; no foreign key, so that the history of an index outlives the tool
    tool_id uuid NOT NULL,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    folder_node_id text,
    kind text NOT NULL CHECK (kind IN ('create', 'reindex', 'retry', 'update')),
    status text NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'indexing', 'ready', 'error', 'cancelled')),
    -- the request that led to the run, as the log has it; null: none did
    request_id text,

    -- what is asked for: every file is read again; removals are not held; only these paths, relative to the folder
    "full" boolean NOT NULL DEFAULT false,
    allow_removals boolean NOT NULL DEFAULT false,
    paths text[],
    -- the run that follows, with the same options, and the tools that asked for it: it keeps within their limits
    rerun boolean NOT NULL DEFAULT false,
    rerun_full boolean NOT NULL DEFAULT false,
    rerun_allow_removals boolean NOT NULL DEFAULT false,
    rerun_paths text[],
    rerun_request_id text,
    rerun_tool_ids uuid[] NOT NULL DEFAULT '{}',

    -- counts of the index's files and chunks
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
    total_bytes bigint NOT NULL DEFAULT 0,
    -- of the files that are indexed, skipped or failed
    done_bytes bigint NOT NULL DEFAULT 0,
    -- bytes of the files that are left to remove, and one more for each
    removing bigint NOT NULL DEFAULT 0,
    -- files that this task brought to an outcome, their bytes, and about when work on them began
    worked_files bigint NOT NULL DEFAULT 0,
    worked_bytes bigint NOT NULL DEFAULT 0,
    worked_from timestamptz,
    progress double precision NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    -- when all files were last counted, and how long that took; null: they are to be counted next
    counted_at timestamptz,
    refresh_seconds double precision NOT NULL DEFAULT 0,
    -- when the counts last changed, or a worker last held the task's listing or its files
    moved_at timestamptz,

    warning text,
    error text,
    -- the code of the error that ended the task, such as folder_gone
    error_code text,

    -- the epoch of the index while this task is the one that may write
    epoch bigint,
    listing boolean NOT NULL DEFAULT true,
    list_cursor text,
    -- keys below which the source could not be listed: no file there counts as vanished
    unlisted bytea[] NOT NULL DEFAULT '{}',
    -- how much of the folder the last listing left out, by rule; a directory counts as one
    ignored jsonb NOT NULL DEFAULT '{}',
    -- entries of the config that matched something in the listing so far; null: not noted
    matched text[],
    -- what the last complete listing found wrong with the config
    listing_warning text,
    -- pages that the listing has recorded since it began, and the highest number so far: more than that is progress
    listed_pages integer NOT NULL DEFAULT 0,
    most_pages integer NOT NULL DEFAULT 0,
    -- who lists, until when, and who began to list and neither made progress nor released the listing
    plan_owner uuid,
    plan_until timestamptz,
    plan_dead uuid[] NOT NULL DEFAULT '{}',

    -- the tool's limit of paid tokens when the run began; null: none
    max_cost_tokens bigint,
    -- tokens of requests that were sent under the limit, or are about to be
    spent_tokens bigint NOT NULL DEFAULT 0,
    -- whether some request would have passed the limit
    over_cost boolean NOT NULL DEFAULT false,
    -- whether the provider refused some text of the run for its length
    cut_texts boolean NOT NULL DEFAULT false,

    -- unexpected exceptions of index slices since the last outcome of a file, when one was last counted, and the last one
    faults integer NOT NULL DEFAULT 0,
    fault_at timestamptz,
    fault text,
    -- whether workers pass over the task because its index or all its files are locked
    held boolean NOT NULL DEFAULT false,
    -- whether the ended task left rows that the sweep returns or deletes in parts, and the last file that it returned
    leftover boolean NOT NULL DEFAULT false,
    leftover_after uuid,

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
CREATE INDEX search_index_task_leftover ON search_index_task (finished_at) WHERE leftover;

-- What a transaction adds to the counts of a task. It does not lock the task's row, for which all workers would wait.
CREATE TABLE search_index_task_delta (
    task_id uuid NOT NULL,
    total bigint NOT NULL,
    indexed bigint NOT NULL,
    skipped bigint NOT NULL,
    failed bigint NOT NULL,
    removed bigint NOT NULL,
    chunks bigint NOT NULL,
    embedded bigint NOT NULL,
    reused bigint NOT NULL,
    tokens bigint NOT NULL,
    total_bytes bigint NOT NULL,
    done_bytes bigint NOT NULL,
    removing bigint NOT NULL,
    worked_files bigint NOT NULL DEFAULT 0,
    worked_bytes bigint NOT NULL DEFAULT 0
);
CREATE INDEX search_index_task_delta_task ON search_index_task_delta (task_id);

-- Files that the running task has seen. A logged table, because an empty one after a crash would mean "all vanished".
CREATE TABLE search_index_listing (
    task_id uuid NOT NULL REFERENCES search_index_task (id) ON DELETE CASCADE,
    file_id uuid NOT NULL,
    PRIMARY KEY (task_id, file_id)
);

-- When each kind of work last served a project. Of projects with equally much at work, the one served longest ago is next.
-- The number only grows, unlike a clock.
CREATE TABLE project_turn (
    project_id text NOT NULL,
    work text NOT NULL,
    number bigserial NOT NULL,
    PRIMARY KEY (project_id, work)
);

-- The paths of two requests as one: each once; null, which means the whole folder, if one of them is null, or if there
-- are more than `most` together.
CREATE FUNCTION joined_paths(paths text[], others text[], most integer) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN paths IS NOT NULL AND others IS NOT NULL AND count(DISTINCT e.path) <= most
                THEN coalesce(array_agg(DISTINCT e.path), '{}') END
    FROM unnest(paths || others) AS e (path)
$$;

-- The files of an index: what is live of each, and what is to be done with it.
CREATE TABLE search_index_file (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,

    -- as the source lists it
    key bytea NOT NULL,
    path text NOT NULL,
    id_path text NOT NULL,
    node_id text,
    type text,
    size_bytes bigint NOT NULL,
    -- time of the last change according to the source; milliseconds since 1970
    mtime_ms bigint,
    -- changes with the content, as far as the source can tell without reading it
    stamp text NOT NULL,
    -- the versions of what reads and cuts the file: the next run reads it again if they change
    code_version text NOT NULL,
    -- why the source lists it but cannot give its content
    listed_reason text,
    -- it has vanished from its folder, and its removal is held
    missing boolean NOT NULL DEFAULT false,

    -- from the content; null until the file is read
    mime text,
    is_binary boolean,
    language text,
    -- the language by whose rules the words of its chunks were stemmed, as ISO 639-1 code
    words_language text,
    -- what the document says of itself: title, author, description, keywords, created and modified; null: nothing
    properties jsonb,
    -- what the reader could not make out of a file that is indexed all the same; null: all was read
    note text,

    -- the live content; only finish writes it
    live_fingerprint text,
    live_path text,
    live_id_path text,
    live_chunks integer NOT NULL DEFAULT 0,
    live_tokens bigint NOT NULL DEFAULT 0,
    -- false: the live chunks have no vectors, and only keywords find them
    live_embedded boolean NOT NULL DEFAULT true,
    -- live chunks have lost their vectors: the next task writes them again
    lost boolean NOT NULL DEFAULT false,

    -- the current work
    task_id uuid NOT NULL,
    -- read: read and index it; path: only its path changed; remove: the source no longer has it; full: read it even if its
    -- content is already live
    work text NOT NULL DEFAULT 'read' CHECK (work IN ('read', 'path', 'remove', 'full')),
    status text NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'indexing', 'indexed', 'skipped', 'failed', 'removed')),
    reason text CHECK (reason IN ('empty', 'no_text', 'binary', 'too_large', 'unsupported_type', 'not_utf8', 'needs_ocr',
        'encrypted', 'minified', 'generated', 'secret', 'symlink', 'not_a_file', 'unreadable', 'parse_failed',
        'embedding_refused', 'cost_limit', 'store_refused', 'crashed')),
    message text,
    -- whose lease in file_lease holds it, and the number of that claim
    lease_owner uuid,
    generation bigint NOT NULL DEFAULT 0,
    -- an unfinished claim may have patched the store's rows to another path
    patch_pending boolean NOT NULL DEFAULT false,
    attempts integer NOT NULL DEFAULT 0,
    -- how often a process died while it parsed only this file
    crashes integer NOT NULL DEFAULT 0,
    -- a process that held it died: from now on it is claimed alone
    suspect boolean NOT NULL DEFAULT false,
    -- files that one process is parsing, including this one: if it dies with 1, this file caused it
    parsing integer NOT NULL DEFAULT 0,
    embedded_chunks integer NOT NULL DEFAULT 0,
    reused_chunks integer NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    timings jsonb NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
CREATE INDEX search_index_file_path ON search_index_file (index_id, path, id);
CREATE INDEX search_index_file_node ON search_index_file (index_id, node_id) WHERE node_id IS NOT NULL;
-- the rows at and below a path; a whole key may be longer than a row of an index
CREATE INDEX search_index_file_key ON search_index_file (index_id, substr(key, 1, 512));
-- same columns as the ORDER BY of the claim
CREATE INDEX search_index_file_smallest ON search_index_file (index_id, size_bytes, id) WHERE status = 'pending';
CREATE INDEX search_index_file_held ON search_index_file (index_id, lease_owner) WHERE status = 'indexing';
-- users look for files that are not indexed, which are usually a few among very many
CREATE INDEX search_index_file_not_indexed ON search_index_file (index_id, path, id)
    WHERE status IN ('skipped', 'failed', 'removed');
CREATE INDEX search_index_file_unembedded ON search_index_file (index_id, path, id) WHERE NOT live_embedded;
CREATE INDEX search_index_file_lost ON search_index_file (index_id) WHERE lost;
-- a query asks which languages an index has
CREATE INDEX search_index_file_words ON search_index_file (index_id, words_language) WHERE live_chunks > 0;

-- Protects against late writers: each claim of a file has a number.
CREATE SEQUENCE claim_generation;

-- One row for each worker that holds files, renewed every second: renewing each file cost more than indexing it.
CREATE TABLE file_lease (
    owner uuid PRIMARY KEY,
    until timestamptz NOT NULL,
    index_id uuid NOT NULL
);

-- The pieces of files that a search finds.
CREATE TABLE chunk (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL,
    file_id uuid NOT NULL REFERENCES search_index_file (id) ON DELETE CASCADE,
    live boolean NOT NULL DEFAULT false,
    chunk_index integer NOT NULL,
    json_pointer text,
    chunk_text text NOT NULL,
    -- what stands above the text when it is embedded, such as headings
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
    page integer,
    title text,
    symbol text,
    node_type text,
    scope text,
    language text,
    level smallint NOT NULL DEFAULT 0,
    embedded boolean NOT NULL DEFAULT true,
    -- if KEYWORD_INDEX=postgres: stems of natural language, and identifiers with their parts; label A marks those of the path
    keywords tsvector,
    code tsvector,
    -- the namespace lost its vector: the next task writes it again
    lost boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80);
CREATE INDEX chunk_file ON chunk (file_id, chunk_index);
CREATE INDEX chunk_index_ids ON chunk (index_id, id);
CREATE INDEX chunk_keywords ON chunk USING gin (keywords) WHERE keywords IS NOT NULL;
CREATE INDEX chunk_code ON chunk USING gin (code) WHERE code IS NOT NULL;
-- A vector that is no longer cached may still be live with the same text. By index, so that the time of a look-up in
-- one project does not depend on another project.
CREATE INDEX chunk_content_hash ON chunk (index_id, hashtextextended(content_hash, 0)) WHERE live;

-- Vectors to delete from the store.
CREATE TABLE chunk_tombstone (
    id uuid PRIMARY KEY,
    index_id uuid NOT NULL REFERENCES search_index (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- the store confirmed a first delete; a second one follows when late writes are no longer possible
    deleted_at timestamptz
);
CREATE INDEX chunk_tombstone_age ON chunk_tombstone (created_at);
-- the tombstones of each index are looked up separately, oldest first
CREATE INDEX chunk_tombstone_index ON chunk_tombstone (index_id, created_at);

-- Definitions in code. Finish writes them with the file's chunks.
CREATE TABLE symbol (
    file_id uuid NOT NULL,
    -- in the order of the file
    number integer NOT NULL,
    index_id uuid NOT NULL,
    -- compared by bytes, so that one index serves equality, prefixes and order
    name text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    -- names of the enclosing definitions, "outer/inner", or ''
    scope text COLLATE "C" NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    signature text NOT NULL,
    PRIMARY KEY (file_id, number)
);
CREATE INDEX symbol_name ON symbol (index_id, name, file_id, number);
CREATE INDEX symbol_name_lower ON symbol (index_id, lower(name), file_id, number);

-- The uses of a name in a file. A row for each use took a third of what Postgres wrote for a folder of code.
CREATE TABLE symbol_use (
    file_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    index_id uuid NOT NULL,
    -- an element for each use, in the order of the file
    numbers integer[] NOT NULL,
    kinds text[] NOT NULL,
    -- the definitions that contain the uses, each with its own name: "outer/inner", or ''
    scopes text[] COLLATE "C" NOT NULL,
    lines integer[] NOT NULL,
    PRIMARY KEY (index_id, name, file_id)
);
CREATE INDEX symbol_use_file ON symbol_use (file_id);
-- each use as a row of its own
CREATE VIEW symbol_reference AS
SELECT s.file_id, r.number, s.index_id, s.name, r.kind, r.scope, r.line
FROM symbol_use s CROSS JOIN LATERAL unnest(s.numbers, s.kinds, s.scopes, s.lines) AS r (number, kind, scope, line);

-- Symbols go with their file. A foreign key would check each row, which took a third of the time of writing one; the
-- transaction that writes symbols has locked the file's row already.
CREATE FUNCTION delete_symbols() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM symbol WHERE file_id = OLD.id;
    DELETE FROM symbol_use WHERE file_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER search_index_file_symbols AFTER DELETE ON search_index_file
    FOR EACH ROW EXECUTE FUNCTION delete_symbols();

-- Vectors that were paid for, by the hash of their text.
CREATE TABLE embedding_cache (
    project_id text NOT NULL,
    -- the model and its parameters
    embedder text NOT NULL,
    text_hash bytea NOT NULL,
    vector bytea NOT NULL,
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, embedder, text_hash)
);
CREATE INDEX embedding_cache_used ON embedding_cache (used_at);

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

-- Summary trees over indexes, one for each index and config; the tools with that config share it.
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
    -- who builds, and until when
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

-- The key that this installation made for stores that others operate: they get hashes of words, names and paths.
-- BLIND_TOKEN_KEY takes its place.
CREATE TABLE text_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- When a periodic job of a single worker was last started.
CREATE TABLE upkeep (
    name text PRIMARY KEY,
    ran_at timestamptz NOT NULL
);

-- Our own connections whose server process waits for the client, as last seen by the sweep. Empty after a crash.
CREATE UNLOGGED TABLE silent_backend (
    pid integer PRIMARY KEY,
    -- identifies the statement and the progress of a COPY: it changes if the client continues
    state text NOT NULL,
    since timestamptz NOT NULL
);

-- Our own connections that hold up others while their client does nothing, as the sweep saw them. Empty after a crash.
CREATE UNLOGGED TABLE blocking_backend (
    pid integer PRIMARY KEY,
    -- identifies the transaction
    state text NOT NULL,
    since timestamptz NOT NULL
);
