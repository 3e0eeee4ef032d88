-- pg_dump of a database of the last commit before the first release, without comments, settings and yoyo's log.
CREATE FUNCTION delete_symbols() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM symbol WHERE file_id = OLD.id;
    DELETE FROM symbol_use WHERE file_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE FUNCTION joined_paths(paths text[], others text[], most integer) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN paths IS NOT NULL AND others IS NOT NULL AND count(DISTINCT e.path) <= most
                THEN coalesce(array_agg(DISTINCT e.path), '{}') END
    FROM unnest(paths || others) AS e (path)
$$;
CREATE FUNCTION write_symbol_reference() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM symbol_use WHERE index_id = OLD.index_id AND name = OLD.name AND file_id = OLD.file_id;
        RETURN OLD;
    END IF;
    INSERT INTO symbol_use AS s (file_id, name, index_id, numbers, kinds, scopes, lines)
    VALUES (NEW.file_id, NEW.name, NEW.index_id, ARRAY[NEW.number], ARRAY[NEW.kind], ARRAY[NEW.scope], ARRAY[NEW.line])
    ON CONFLICT (index_id, name, file_id) DO UPDATE
    SET numbers = s.numbers || excluded.numbers, kinds = s.kinds || excluded.kinds,
        scopes = s.scopes || excluded.scopes, lines = s.lines || excluded.lines;
    RETURN NEW;
END
$$;
CREATE TABLE _yoyo_log (
    id character varying(36) NOT NULL,
    migration_hash character varying(64),
    migration_id character varying(255),
    operation character varying(10),
    username character varying(255),
    hostname character varying(255),
    comment character varying(255),
    created_at_utc timestamp without time zone
);
CREATE TABLE _yoyo_migration (
    migration_hash character varying(64) NOT NULL,
    migration_id character varying(255),
    applied_at_utc timestamp without time zone
);
CREATE TABLE _yoyo_version (
    version integer NOT NULL,
    installed_at_utc timestamp without time zone
);
CREATE TABLE api_key (
    id uuid NOT NULL,
    project_id text NOT NULL,
    name text NOT NULL,
    key_hash bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revoked_at timestamp with time zone
);
CREATE UNLOGGED TABLE blocking_backend (
    pid integer NOT NULL,
    state text NOT NULL,
    since timestamp with time zone NOT NULL
);
CREATE TABLE chunk (
    id uuid NOT NULL,
    index_id uuid NOT NULL,
    file_id uuid NOT NULL,
    live boolean DEFAULT false NOT NULL,
    chunk_index integer NOT NULL,
    json_pointer text,
    chunk_text text NOT NULL,
    context text NOT NULL,
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
    level smallint DEFAULT 0 NOT NULL,
    embedded boolean DEFAULT true NOT NULL,
    keywords tsvector,
    lost boolean DEFAULT false NOT NULL,
    page integer,
    code tsvector
)
WITH (fillfactor='80');
CREATE TABLE chunk_tombstone (
    id uuid NOT NULL,
    index_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone
);
CREATE SEQUENCE claim_generation
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE content_node (
    project_id text NOT NULL,
    id text NOT NULL,
    parent_id text,
    id_path text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    type text NOT NULL,
    "json" json,
    object_key text,
    size_bytes bigint DEFAULT 0 NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    url text
);
CREATE TABLE content_stray (
    key text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    given_up boolean DEFAULT false NOT NULL
);
CREATE TABLE declined_work (
    work_id uuid NOT NULL,
    process_id uuid NOT NULL,
    declined_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE embedding_cache (
    project_id text NOT NULL,
    embedder text NOT NULL,
    text_hash bytea NOT NULL,
    vector bytea NOT NULL,
    used_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE embedding_cache_pass (
    id boolean DEFAULT true NOT NULL,
    began timestamp with time zone,
    used_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL,
    project_id text DEFAULT ''::text NOT NULL,
    embedder text DEFAULT ''::text NOT NULL,
    text_hash bytea DEFAULT '\x'::bytea NOT NULL,
    spare bigint DEFAULT 0 NOT NULL,
    excess bigint DEFAULT 0 NOT NULL,
    CONSTRAINT embedding_cache_pass_id_check CHECK (id)
);
CREATE TABLE file_lease (
    owner uuid NOT NULL,
    until timestamp with time zone NOT NULL,
    index_id uuid
);
CREATE TABLE folder_host (
    host_id text NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE folder_refusal (
    index_id uuid NOT NULL,
    host_id text NOT NULL,
    host_name text NOT NULL,
    refused_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE host_process (
    id uuid NOT NULL,
    host_id text NOT NULL,
    host_name text NOT NULL,
    role text NOT NULL,
    node text NOT NULL,
    queues text[] NOT NULL,
    release text NOT NULL,
    needed_schema text NOT NULL,
    settings jsonb NOT NULL,
    settings_digest text NOT NULL,
    shown jsonb NOT NULL,
    reached jsonb DEFAULT '{}'::jsonb NOT NULL,
    clock_seconds double precision NOT NULL,
    clock_doubt_seconds double precision NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT host_process_host_id_check CHECK ((length(host_id) <= 64)),
    CONSTRAINT host_process_host_name_check CHECK ((length(host_name) <= 64)),
    CONSTRAINT host_process_needed_schema_check CHECK ((length(needed_schema) <= 64)),
    CONSTRAINT host_process_node_check CHECK ((length(node) <= 200)),
    CONSTRAINT host_process_reached_check CHECK ((length((reached)::text) <= 20000)),
    CONSTRAINT host_process_release_check CHECK ((length(release) <= 64)),
    CONSTRAINT host_process_role_check CHECK ((role = ANY (ARRAY['api'::text, 'worker'::text, 'beat'::text, 'watch'::text]))),
    CONSTRAINT host_process_settings_digest_check CHECK ((length(settings_digest) <= 64)),
    CONSTRAINT host_process_shown_check CHECK ((length((shown)::text) <= 20000))
);
CREATE TABLE indexed_folder (
    index_id uuid NOT NULL,
    path text NOT NULL,
    host_id text NOT NULL,
    host_name text NOT NULL,
    inode text NOT NULL,
    place text,
    changed_ns bigint NOT NULL,
    listed_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE installation (
    only_row boolean DEFAULT true NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT installation_only_row_check CHECK (only_row)
);
CREATE TABLE namespace_name (
    name text NOT NULL,
    index_id uuid NOT NULL,
    vector_store text NOT NULL,
    keyword_index text NOT NULL,
    retired_at timestamp with time zone,
    next_check_at timestamp with time zone
);
CREATE TABLE project_turn (
    project_id text NOT NULL,
    work text NOT NULL,
    number bigint NOT NULL
);
CREATE SEQUENCE project_turn_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE project_turn_number_seq OWNED BY project_turn.number;
CREATE TABLE search_index (
    id uuid NOT NULL,
    project_id text NOT NULL,
    identity text NOT NULL,
    source jsonb NOT NULL,
    folder_node_id text,
    settings jsonb NOT NULL,
    vector_store text NOT NULL,
    keyword_index text NOT NULL,
    namespace text NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    checked_at timestamp with time zone DEFAULT now(),
    check_cursor uuid,
    check_every interval,
    stopping uuid,
    text_key text,
    CONSTRAINT search_index_keyword_index_check CHECK ((keyword_index = ANY (ARRAY['postgres'::text, 'store'::text]))),
    CONSTRAINT search_index_vector_store_check CHECK ((vector_store = ANY (ARRAY['turbopuffer'::text, 'lancedb'::text])))
);
CREATE TABLE search_index_change (
    index_id uuid NOT NULL,
    since timestamp with time zone,
    due_at timestamp with time zone,
    ran_at timestamp with time zone,
    rest_until timestamp with time zone,
    seen text,
    paths text[],
    paths_by xid8
);
CREATE TABLE search_index_file (
    id uuid NOT NULL,
    index_id uuid NOT NULL,
    key bytea NOT NULL,
    path text NOT NULL,
    id_path text NOT NULL,
    node_id text,
    type text,
    size_bytes bigint NOT NULL,
    live_fingerprint text,
    live_path text,
    live_id_path text,
    live_chunks integer DEFAULT 0 NOT NULL,
    live_tokens bigint DEFAULT 0 NOT NULL,
    task_id uuid NOT NULL,
    stamp text NOT NULL,
    code_version text NOT NULL,
    listed_reason text,
    work text DEFAULT 'read'::text NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    reason text,
    message text,
    attempts integer DEFAULT 0 NOT NULL,
    lease_owner uuid,
    lease_until timestamp with time zone,
    embedded_chunks integer DEFAULT 0 NOT NULL,
    reused_chunks integer DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    timings jsonb DEFAULT '{}'::jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    suspect boolean DEFAULT false NOT NULL,
    parsing integer DEFAULT 0 NOT NULL,
    lost boolean DEFAULT false NOT NULL,
    mtime_ms bigint,
    mime text,
    is_binary boolean,
    language text,
    live_embedded boolean DEFAULT true NOT NULL,
    generation bigint DEFAULT 0 NOT NULL,
    patch_pending boolean DEFAULT false NOT NULL,
    words_language text,
    properties jsonb,
    note text,
    missing boolean DEFAULT false NOT NULL,
    CONSTRAINT search_index_file_reason_check CHECK ((reason = ANY (ARRAY['empty'::text, 'no_text'::text, 'binary'::text, 'too_large'::text, 'unsupported_type'::text, 'not_utf8'::text, 'needs_ocr'::text, 'encrypted'::text, 'minified'::text, 'generated'::text, 'secret'::text, 'symlink'::text, 'not_a_file'::text, 'unreadable'::text, 'parse_failed'::text, 'embedding_refused'::text, 'cost_limit'::text, 'store_refused'::text, 'crashed'::text]))),
    CONSTRAINT search_index_file_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'indexing'::text, 'indexed'::text, 'skipped'::text, 'failed'::text, 'removed'::text]))),
    CONSTRAINT search_index_file_work_check CHECK ((work = ANY (ARRAY['read'::text, 'path'::text, 'remove'::text, 'full'::text])))
)
WITH (fillfactor='80');
CREATE TABLE search_index_listing (
    task_id uuid NOT NULL,
    file_id uuid NOT NULL
);
CREATE TABLE search_index_task (
    id uuid NOT NULL,
    tool_id uuid NOT NULL,
    index_id uuid NOT NULL,
    folder_node_id text,
    kind text NOT NULL,
    status text DEFAULT 'pending'::text NOT NULL,
    total_files bigint DEFAULT 0 NOT NULL,
    indexed_files bigint DEFAULT 0 NOT NULL,
    skipped_files bigint DEFAULT 0 NOT NULL,
    failed_files bigint DEFAULT 0 NOT NULL,
    removed_files bigint DEFAULT 0 NOT NULL,
    held_removals bigint DEFAULT 0 NOT NULL,
    total_chunks bigint DEFAULT 0 NOT NULL,
    embedded_chunks bigint DEFAULT 0 NOT NULL,
    reused_chunks bigint DEFAULT 0 NOT NULL,
    tokens bigint DEFAULT 0 NOT NULL,
    progress double precision DEFAULT 0 NOT NULL,
    warning text,
    error text,
    epoch bigint,
    listing boolean DEFAULT true NOT NULL,
    list_cursor text,
    unlisted bytea[] DEFAULT '{}'::bytea[] NOT NULL,
    rerun boolean DEFAULT false NOT NULL,
    allow_removals boolean DEFAULT false NOT NULL,
    plan_owner uuid,
    plan_until timestamp with time zone,
    sent_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    "full" boolean DEFAULT false NOT NULL,
    rerun_full boolean DEFAULT false NOT NULL,
    rerun_allow_removals boolean DEFAULT false NOT NULL,
    refreshed_at timestamp with time zone,
    refresh_seconds double precision DEFAULT 0 NOT NULL,
    ignored jsonb DEFAULT '{}'::jsonb NOT NULL,
    error_code text,
    moved_at timestamp with time zone,
    plan_dead uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    listed_pages integer DEFAULT 0 NOT NULL,
    most_pages integer DEFAULT 0 NOT NULL,
    faults integer DEFAULT 0 NOT NULL,
    fault_at timestamp with time zone,
    fault text,
    matched text[],
    listing_warning text,
    max_cost_tokens bigint,
    spent_tokens bigint DEFAULT 0 NOT NULL,
    over_cost boolean DEFAULT false NOT NULL,
    request_id text,
    rerun_request_id text,
    total_bytes bigint DEFAULT 0 NOT NULL,
    done_bytes bigint DEFAULT 0 NOT NULL,
    paths text[],
    rerun_paths text[],
    counted_at timestamp with time zone,
    removing bigint DEFAULT 0 NOT NULL,
    leftover boolean DEFAULT false NOT NULL,
    leftover_after uuid,
    worked_files bigint DEFAULT 0 NOT NULL,
    worked_bytes bigint DEFAULT 0 NOT NULL,
    worked_from timestamp with time zone,
    rerun_tool_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    held boolean DEFAULT false NOT NULL,
    cut_texts boolean DEFAULT false NOT NULL,
    CONSTRAINT search_index_task_kind_check CHECK ((kind = ANY (ARRAY['create'::text, 'reindex'::text, 'retry'::text, 'update'::text]))),
    CONSTRAINT search_index_task_progress_check CHECK (((progress >= (0)::double precision) AND (progress <= (1)::double precision))),
    CONSTRAINT search_index_task_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'indexing'::text, 'ready'::text, 'error'::text, 'cancelled'::text])))
);
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
    worked_files bigint DEFAULT 0 NOT NULL,
    worked_bytes bigint DEFAULT 0 NOT NULL
);
CREATE TABLE search_index_upkeep (
    index_id uuid NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    after timestamp with time zone NOT NULL
);
CREATE TABLE search_tool (
    id uuid NOT NULL,
    project_id text NOT NULL,
    name text NOT NULL,
    index_id uuid NOT NULL,
    node_id text,
    source jsonb NOT NULL,
    config jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    next_index_id uuid,
    next_config jsonb,
    update_error text,
    next_run_at timestamp with time zone
);
CREATE UNLOGGED TABLE silent_backend (
    pid integer NOT NULL,
    state text NOT NULL,
    since timestamp with time zone NOT NULL
);
CREATE TABLE source_grant (
    project_id text NOT NULL,
    place text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    real_place text
);
CREATE TABLE store_directory (
    kind text NOT NULL,
    id uuid NOT NULL,
    home uuid,
    missing_since timestamp with time zone,
    missing_at timestamp with time zone,
    refused_at timestamp with time zone,
    refusal text
);
CREATE TABLE summary_cache (
    project_id text NOT NULL,
    key text NOT NULL,
    tree_id uuid NOT NULL,
    text text NOT NULL,
    used_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE summary_tree (
    id uuid NOT NULL,
    index_id uuid NOT NULL,
    project_id text NOT NULL,
    config jsonb NOT NULL,
    status text DEFAULT 'none'::text NOT NULL,
    epoch bigint DEFAULT 1 NOT NULL,
    stage text DEFAULT 'leaves'::text NOT NULL,
    level smallint DEFAULT 0 NOT NULL,
    is_full boolean DEFAULT false NOT NULL,
    rerun boolean DEFAULT false NOT NULL,
    rerun_full boolean DEFAULT false NOT NULL,
    index_task_id uuid,
    owner uuid,
    lease_until timestamp with time zone,
    sent_at timestamp with time zone,
    deaths integer DEFAULT 0 NOT NULL,
    faults integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    failure_reason text,
    expected_summaries integer DEFAULT 0 NOT NULL,
    done_summaries integer DEFAULT 0 NOT NULL,
    skipped jsonb DEFAULT '{}'::jsonb NOT NULL,
    tokens_in bigint DEFAULT 0 NOT NULL,
    tokens_out bigint DEFAULT 0 NOT NULL,
    requests bigint DEFAULT 0 NOT NULL,
    fits jsonb DEFAULT '{}'::jsonb NOT NULL,
    warning text,
    error text,
    error_code text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    built_at timestamp with time zone,
    CONSTRAINT summary_tree_stage_check CHECK ((stage = ANY (ARRAY['leaves'::text, 'cluster'::text, 'summarise'::text, 'embed'::text, 'publish'::text]))),
    CONSTRAINT summary_tree_status_check CHECK ((status = ANY (ARRAY['none'::text, 'pending'::text, 'indexing'::text, 'indexed'::text, 'error'::text, 'cancelled'::text])))
);
CREATE TABLE symbol (
    file_id uuid NOT NULL,
    number integer NOT NULL,
    index_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    scope text NOT NULL COLLATE pg_catalog."C",
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    signature text NOT NULL
);
CREATE TABLE symbol_use (
    file_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    index_id uuid NOT NULL,
    numbers integer[] NOT NULL,
    kinds text[] NOT NULL,
    scopes text[] NOT NULL COLLATE pg_catalog."C",
    lines integer[] NOT NULL
);
CREATE VIEW symbol_reference AS
 SELECT s.file_id,
    r.number,
    s.index_id,
    s.name,
    r.kind,
    r.scope,
    r.line
   FROM (symbol_use s
     CROSS JOIN LATERAL UNNEST(s.numbers, s.kinds, s.scopes, s.lines) r(number, kind, scope, line));
CREATE TABLE text_key (
    only_row boolean DEFAULT true NOT NULL,
    secret text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT text_key_only_row_check CHECK (only_row)
);
CREATE TABLE tree_leaf (
    tree_id uuid NOT NULL,
    hash text NOT NULL,
    live boolean DEFAULT false NOT NULL,
    building boolean DEFAULT true NOT NULL
);
CREATE TABLE tree_node (
    id uuid NOT NULL,
    tree_id uuid NOT NULL,
    level smallint NOT NULL,
    slot integer NOT NULL,
    key text NOT NULL,
    children text[] NOT NULL,
    text text,
    text_hash text,
    skip_reason text,
    stored boolean DEFAULT false NOT NULL,
    live boolean DEFAULT false NOT NULL,
    building boolean DEFAULT true NOT NULL
);
CREATE TABLE tree_tombstone (
    id uuid NOT NULL,
    index_id uuid NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone
);
CREATE TABLE upkeep (
    name text NOT NULL,
    ran_at timestamp with time zone NOT NULL
);
CREATE TABLE yoyo_lock (
    locked integer DEFAULT 1 NOT NULL,
    ctime timestamp without time zone,
    pid integer NOT NULL
);
ALTER TABLE ONLY project_turn ALTER COLUMN number SET DEFAULT nextval('project_turn_number_seq'::regclass);
INSERT INTO _yoyo_migration VALUES
	('3ef54af11f5dd6ae30463e2a77ee651fb81022a58928acccdd9ff64181d79745', '0001_initial', '2026-11-29 11:47:07.574832'),
	('71ad56edd1f90ef02ae69d5601f181dbc1f4ee0227352fee83baffebf0cafd89', '0002_faults', '2026-11-29 11:47:07.687788'),
	('f4357141eb9b70105717a756d057aef21b724d05e4a16001457e726584c830fb', '0003_formats', '2026-11-29 11:47:07.774425'),
	('1a3cb0fefd2535975baa5ee85135a6a482326f311bf37a9d6b3d68aae8ea6e6f', '0004_symbols', '2026-11-29 11:47:07.858615'),
	('7d4bc5fcc99d07704db0e9072e75ade9f285b56d1fca368fc75559a0cd2539ed', '0005_ignored', '2026-11-29 11:47:07.934641'),
	('350d193f079ce5cdd3c65cea7ecc787da6b553644ec64c97c4fea7895fefc31d', '0006_bounds', '2026-11-29 11:47:07.990698'),
	('32061dd9e9a94b07b21c9bbcfca0f31049b4e82240d064a85093a4fdfaae49bc', '0007_watch', '2026-11-29 11:47:08.074614'),
	('638b10b1820707e5724364872ca11ff4b8311ea3cd9a8d0b09da0acbaccd1291', '0008_keywords', '2026-11-29 11:47:08.134654'),
	('a7db4fa71c960f09316f246deca68374a5b2b7f4fd4cef8c83aab1d518d7cb59', '0009_symbols', '2026-11-29 11:47:08.190515'),
	('7a3ee6caa25bd40ffa42a94093fa8ef219542deb7997a644435c6f5f028029c9', '0010_leases', '2026-11-29 11:47:08.266574'),
	('d004eeba2c18f36b2874a4b0778eb3ed3206df76b8295c7d2f215902c2054ec7', '0011_not_indexed', '2026-11-29 11:47:08.325873'),
	('45df21463c9061d84697e299209a2b89de79fbbfa952f4c90f4ffcba9037d04a', '0012_stalled', '2026-11-29 11:47:08.353556'),
	('3487f375fae71369732fd00fa75efd906954895a70aea13731aa9b3cbcd039c6', '0013_upkeep', '2026-11-29 11:47:08.406954'),
	('e50887ef8ed49bdfcb4d5bdfd4b356fe72807d89c377ec6136aecc3633cd98f9', '0014_generations', '2026-11-29 11:47:08.459158'),
	('94f1ce1292b937f514493150c7dbe8194e2c9305d9b7aab71b39be75ec53d476', '0015_silent_backends', '2026-11-29 11:47:08.490364'),
	('abfd69d3a04b9486acc13462a778e8f3851eb7460fe65e376eb5c6a2df5c6034', '0016_grants', '2026-11-29 11:47:08.534806'),
	('af1e7d23bb99c59f80535418d9cabef060d57437190279a620a674e748779f01', '0017_node_names', '2026-11-29 11:47:08.590451'),
	('8619d05b2a4aa4860eeb07cb522d27278cd818db7d46534ecc29e9d30a9c11f0', '0018_node_urls', '2026-11-29 11:47:08.642729'),
	('abb8ec827ba50362c520bf49ac61395dbbca9605284d1c4ad87f0aa2206169a5', '0019_unmatched', '2026-11-29 11:47:08.713485'),
	('3d6f045fe465521acb51a189c66ab1403208a3d180b51bf421c0ba2466ffe5d8', '0020_cost_limit', '2026-11-29 11:47:08.764433'),
	('a2476e00f4d80cd6e9375321b089a024be90753def7e64553e00c313c6a0ed4e', '0021_trees', '2026-11-29 11:47:08.886586'),
	('bd5243292d9a8943354c29a2b9dfc57441fcd431f5ea94d3ead8ea1d84700f29', '0022_requests', '2026-11-29 11:47:08.926352'),
	('3e720625549d35e0c91c0053fcde74749938f75242fe4d4560a56030189ed2cd', '0023_languages', '2026-11-29 11:47:08.985786'),
	('dc1c78331c2b6a30865d918fb63452308f4089fc0b73aed1060de657999b33b3', '0024_paths', '2026-11-29 11:47:09.03198'),
	('9fd189a3acc9d9ae3a0363cd5903a34942126d2733e29a60f0e52a6f97860eba', '0025_leases_of_indexes', '2026-11-29 11:47:09.086617'),
	('2e4accedcb50d539e61b3cb6a22b70c5c71d20f05b2e55f200561eda69b7681c', '0026_properties', '2026-11-29 11:47:09.133158'),
	('f618381850b983d263578d7c2cd614e86f32f530a355a21f5ece7f40318e2f8b', '0027_symbols_without_checks', '2026-11-29 11:47:09.192049'),
	('4f93faa63aee203368ae411d9056e14f5cac9d3c514b972e8b22dab87d56d215', '0028_size', '2026-11-29 11:47:09.238622'),
	('2a595c889da8e75bc20e8a2a0ec55da9ad9ceb4bf2336e699fc9b08be01b0daa', '0029_counts', '2026-11-29 11:47:09.312472'),
	('a57fccd4344efad29da8c3e1a00780cffb9572370e8ad576805f978ca6f3735b', '0030_seen_paths', '2026-11-29 11:47:09.369185'),
	('e2ae16e64521865f08f9eb08e51ac246a070aa0029176e7d4d786be3469185d2', '0031_notes', '2026-11-29 11:47:09.414478'),
	('38717d0056095baa663cb0447c6825d15f2f2aa8aff6dcc639a11866bcf72bec', '0032_small_first', '2026-11-29 11:47:09.474527'),
	('ea44ac07b25ba5896934b3908638cb9a7188f141f1ea83dab36d86ac92d572e1', '0033_unused_index', '2026-11-29 11:47:09.522922'),
	('3e9996d75cd9c6c69c8cb5ea35f69af35dd8f0beb942ab1f5bb70944df0792c3', '0034_symbol_uses', '2026-11-29 11:47:09.590398'),
	('a9ae1b880cd43f6e3bc5920412fa7e6cb7e0f7e06b358e0e7fe1f068ac40053f', '0035_joined_paths', '2026-11-29 11:47:09.63226'),
	('511668c2dec063cdce6003a46979508b36ab841606500f870010c48347c8bfa2', '0036_rerun_tools', '2026-11-29 11:47:09.672777'),
	('9143b116403ace7aac8be1251d6d11d3a0877748e4923024ad65dee5ffa70431', '0037_project_turns', '2026-11-29 11:47:09.734404'),
	('ee9ff47d686a2b43d77a6705a545e51a1362a20e6a557b37ac893d24e89821bc', '0038_real_places', '2026-11-29 11:47:09.783977'),
	('6f34f8adc7cb20b88947ab6ed4d1efa426dd8de5a085f8f113a891874464202f', '0039_locks', '2026-11-29 11:47:09.858433'),
	('2a576ea0f9c9965cbe14630cb88b4abb1d15cc6f138ab77b13dbf65fd5526a9d', '0040_text_keys', '2026-11-29 11:47:09.902999'),
	('17d2cebd259dd32a47e331b99066f3ecbd68215ee70947b7a32ffa8f09a944bc', '0041_cut_texts', '2026-11-29 11:47:09.972351'),
	('1ac0510a54f3ec712655aa7e8d721e019d9f23d54289d24a7e7829ae28846cd2', '0042_secrets', '2026-11-29 11:47:10.040857'),
	('bc7aa4de5068217b3567e23e96ee60fd7e056277a499e699a3c4049b7b739a07', '0043_missing_files', '2026-11-29 11:47:10.096509'),
	('81860106913b7a803e42938feec78671f61b94038f458d2d00f3f567f0ad8f34', '0044_store_directories', '2026-11-29 11:47:10.158704'),
	('aa447acc25bb35daf57363a68a2ab734d168fb88121b821322f973014ac6e6df', '0045_hosts', '2026-11-29 11:47:10.246214'),
	('5b0ea64050eb9ee810b5f5f608085daf6b7eb9c8ad95a19aa864f89a52beefe7', '0046_local_folders', '2026-11-29 11:47:10.314424');
INSERT INTO _yoyo_version VALUES
	(2, '2026-11-29 11:47:06.999455');
INSERT INTO chunk VALUES
	('00000000-0000-4000-8000-000000000008', '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000004', true, 0, NULL, 'def tide(): ...', '', '', '', 'h', 4, 1, 1, 0, 15, NULL, NULL, NULL, NULL, NULL, 0, true, NULL, false, NULL, NULL);
INSERT INTO file_lease VALUES
	('00000000-0000-4000-8000-000000000006', '2026-11-29 11:47:10.353148+00', '00000000-0000-4000-8000-000000000001'),
	('00000000-0000-4000-8000-000000000007', '2026-11-29 11:47:10.353148+00', NULL);
INSERT INTO installation VALUES
	(true, 'b1c2a2d7-0929-48e6-b27f-9d85ec2bde92');
INSERT INTO search_index VALUES
	('00000000-0000-4000-8000-000000000001', 'harbour', 'i', '{"kind": "local", "path": "/srv/notes"}', NULL, '{}', 'lancedb', 'store', 'foldex-1', 1, '2026-11-29 11:47:10.353148+00', NULL, '2026-11-29 11:47:10.353148+00', NULL, NULL, NULL, NULL);
INSERT INTO search_index_change VALUES
	('00000000-0000-4000-8000-000000000001', '2026-11-29 11:47:10.353148+00', '2026-11-29 11:47:10.353148+00', NULL, NULL, NULL, NULL, NULL);
INSERT INTO search_index_file VALUES
	('00000000-0000-4000-8000-000000000004', '00000000-0000-4000-8000-000000000001', '\x612e7079', 'a.py', 'a.py', NULL, 'code', 20, 'f', 'a.py', NULL, 1, 0, '00000000-0000-4000-8000-000000000003', 's', 'v', NULL, 'read', 'indexed', NULL, NULL, 0, NULL, NULL, 0, 0, 0, '{}', '2026-11-29 11:47:10.353148+00', 0, false, 0, false, NULL, NULL, NULL, NULL, true, 0, false, NULL, NULL, NULL, false),
	('00000000-0000-4000-8000-000000000005', '00000000-0000-4000-8000-000000000001', '\x622e6d64', 'b.md', 'b.md', NULL, 'markdown', 20, NULL, NULL, NULL, 0, 0, '00000000-0000-4000-8000-000000000003', 's', 'v', NULL, 'read', 'indexing', NULL, NULL, 0, '00000000-0000-4000-8000-000000000006', NULL, 0, 0, 0, '{}', '2026-11-29 11:47:10.353148+00', 0, false, 0, false, NULL, NULL, NULL, NULL, true, 0, false, NULL, NULL, NULL, false);
INSERT INTO search_index_listing VALUES
	('00000000-0000-4000-8000-000000000003', '00000000-0000-4000-8000-000000000004');
INSERT INTO search_index_task VALUES
	('00000000-0000-4000-8000-000000000003', '00000000-0000-4000-8000-000000000002', '00000000-0000-4000-8000-000000000001', NULL, 'create', 'indexing', 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 1, false, NULL, '{}', false, false, NULL, NULL, NULL, '2026-11-29 11:47:10.353148+00', '2026-11-29 11:47:10.353148+00', NULL, false, false, false, '2026-11-29 11:47:10.353148+00', 0, '{}', NULL, NULL, '{}', 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, false, NULL, NULL, 0, 0, NULL, NULL, '2026-11-29 11:47:10.353148+00', 0, false, NULL, 0, 0, NULL, '{}', false, false);
INSERT INTO search_tool VALUES
	('00000000-0000-4000-8000-000000000002', 'harbour', 'notes', '00000000-0000-4000-8000-000000000001', NULL, '{"kind": "local", "path": "/srv/notes"}', '{"watch": true}', '2026-11-29 11:47:10.353148+00', '2026-11-29 11:47:10.353148+00', NULL, NULL, NULL, NULL);
INSERT INTO source_grant VALUES
	('harbour', '/srv/notes', '2026-11-29 11:47:10.353148+00', '/srv/notes');
INSERT INTO symbol_use VALUES
	('00000000-0000-4000-8000-000000000004', 'tide', '00000000-0000-4000-8000-000000000001', '{0}', '{call}', '{""}', '{1}');
SELECT pg_catalog.setval('claim_generation', 1, false);
SELECT pg_catalog.setval('project_turn_number_seq', 1, false);
ALTER TABLE ONLY _yoyo_log ADD CONSTRAINT _yoyo_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY _yoyo_migration ADD CONSTRAINT _yoyo_migration_pkey PRIMARY KEY (migration_hash);
ALTER TABLE ONLY _yoyo_version ADD CONSTRAINT _yoyo_version_pkey PRIMARY KEY (version);
ALTER TABLE ONLY api_key ADD CONSTRAINT api_key_key_hash_key UNIQUE (key_hash);
ALTER TABLE ONLY api_key ADD CONSTRAINT api_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY blocking_backend ADD CONSTRAINT blocking_backend_pkey PRIMARY KEY (pid);
ALTER TABLE ONLY chunk ADD CONSTRAINT chunk_pkey PRIMARY KEY (id);
ALTER TABLE ONLY chunk_tombstone ADD CONSTRAINT chunk_tombstone_pkey PRIMARY KEY (id);
ALTER TABLE ONLY content_node ADD CONSTRAINT content_node_pkey PRIMARY KEY (project_id, id);
ALTER TABLE ONLY content_stray ADD CONSTRAINT content_stray_pkey PRIMARY KEY (key);
ALTER TABLE ONLY declined_work ADD CONSTRAINT declined_work_pkey PRIMARY KEY (work_id, process_id);
ALTER TABLE ONLY embedding_cache_pass ADD CONSTRAINT embedding_cache_pass_pkey PRIMARY KEY (id);
ALTER TABLE ONLY embedding_cache ADD CONSTRAINT embedding_cache_pkey PRIMARY KEY (project_id, embedder, text_hash);
ALTER TABLE ONLY file_lease ADD CONSTRAINT file_lease_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY folder_host ADD CONSTRAINT folder_host_pkey PRIMARY KEY (host_id);
ALTER TABLE ONLY folder_refusal ADD CONSTRAINT folder_refusal_pkey PRIMARY KEY (index_id, host_id);
ALTER TABLE ONLY host_process ADD CONSTRAINT host_process_pkey PRIMARY KEY (id);
ALTER TABLE ONLY indexed_folder ADD CONSTRAINT indexed_folder_pkey PRIMARY KEY (index_id);
ALTER TABLE ONLY installation ADD CONSTRAINT installation_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY namespace_name ADD CONSTRAINT namespace_name_pkey PRIMARY KEY (name);
ALTER TABLE ONLY project_turn ADD CONSTRAINT project_turn_pkey PRIMARY KEY (project_id, work);
ALTER TABLE ONLY search_index_change ADD CONSTRAINT search_index_change_pkey PRIMARY KEY (index_id);
ALTER TABLE ONLY search_index_file ADD CONSTRAINT search_index_file_pkey PRIMARY KEY (id);
ALTER TABLE ONLY search_index_listing ADD CONSTRAINT search_index_listing_pkey PRIMARY KEY (task_id, file_id);
ALTER TABLE ONLY search_index ADD CONSTRAINT search_index_namespace_key UNIQUE (namespace);
ALTER TABLE ONLY search_index ADD CONSTRAINT search_index_pkey PRIMARY KEY (id);
ALTER TABLE ONLY search_index_task ADD CONSTRAINT search_index_task_pkey PRIMARY KEY (id);
ALTER TABLE ONLY search_index_upkeep ADD CONSTRAINT search_index_upkeep_pkey PRIMARY KEY (index_id);
ALTER TABLE ONLY search_tool ADD CONSTRAINT search_tool_pkey PRIMARY KEY (id);
ALTER TABLE ONLY silent_backend ADD CONSTRAINT silent_backend_pkey PRIMARY KEY (pid);
ALTER TABLE ONLY source_grant ADD CONSTRAINT source_grant_pkey PRIMARY KEY (project_id, place);
ALTER TABLE ONLY store_directory ADD CONSTRAINT store_directory_pkey PRIMARY KEY (kind);
ALTER TABLE ONLY summary_cache ADD CONSTRAINT summary_cache_pkey PRIMARY KEY (project_id, key);
ALTER TABLE ONLY summary_tree ADD CONSTRAINT summary_tree_pkey PRIMARY KEY (id);
ALTER TABLE ONLY symbol ADD CONSTRAINT symbol_pkey PRIMARY KEY (file_id, number);
ALTER TABLE ONLY symbol_use ADD CONSTRAINT symbol_use_pkey PRIMARY KEY (index_id, name, file_id);
ALTER TABLE ONLY text_key ADD CONSTRAINT text_key_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY tree_leaf ADD CONSTRAINT tree_leaf_pkey PRIMARY KEY (tree_id, hash);
ALTER TABLE ONLY tree_node ADD CONSTRAINT tree_node_pkey PRIMARY KEY (id);
ALTER TABLE ONLY tree_node ADD CONSTRAINT tree_node_tree_id_key_key UNIQUE (tree_id, key);
ALTER TABLE ONLY tree_tombstone ADD CONSTRAINT tree_tombstone_pkey PRIMARY KEY (id);
ALTER TABLE ONLY upkeep ADD CONSTRAINT upkeep_pkey PRIMARY KEY (name);
ALTER TABLE ONLY yoyo_lock ADD CONSTRAINT yoyo_lock_pkey PRIMARY KEY (locked);
CREATE INDEX chunk_code ON chunk USING gin (code) WHERE (code IS NOT NULL);
CREATE INDEX chunk_content_hash ON chunk USING btree (index_id, hashtextextended(content_hash, (0)::bigint)) WHERE live;
CREATE INDEX chunk_file ON chunk USING btree (file_id, chunk_index);
CREATE INDEX chunk_index_ids ON chunk USING btree (index_id, id);
CREATE INDEX chunk_keywords ON chunk USING gin (keywords) WHERE (keywords IS NOT NULL);
CREATE INDEX chunk_tombstone_age ON chunk_tombstone USING btree (created_at);
CREATE INDEX chunk_tombstone_index ON chunk_tombstone USING btree (index_id, created_at);
CREATE INDEX content_node_name ON content_node USING btree (project_id, parent_id, hashtextextended(name, (0)::bigint));
CREATE INDEX content_node_object ON content_node USING btree (object_key) WHERE (object_key IS NOT NULL);
CREATE INDEX content_node_order ON content_node USING btree (project_id, parent_id, "left"(name, 200) COLLATE "C");
CREATE INDEX content_node_tree ON content_node USING btree (project_id, id_path);
CREATE INDEX content_stray_due ON content_stray USING btree (due_at);
CREATE INDEX declined_work_process ON declined_work USING btree (process_id);
CREATE INDEX embedding_cache_used ON embedding_cache USING btree (used_at);
CREATE INDEX idx_search_index_task_folder_node_id ON search_index_task USING btree (folder_node_id) WHERE (folder_node_id IS NOT NULL);
CREATE INDEX indexed_folder_path ON indexed_folder USING btree (path);
CREATE INDEX namespace_name_check ON namespace_name USING btree (next_check_at) WHERE (next_check_at IS NOT NULL);
CREATE INDEX search_index_change_due ON search_index_change USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX search_index_checked ON search_index USING btree (checked_at) WHERE (deleted_at IS NULL);
CREATE INDEX search_index_deleted ON search_index USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);
CREATE INDEX search_index_file_held ON search_index_file USING btree (index_id, lease_owner) WHERE (status = 'indexing'::text);
CREATE INDEX search_index_file_key ON search_index_file USING btree (index_id, substr(key, 1, 512));
CREATE INDEX search_index_file_lost ON search_index_file USING btree (index_id) WHERE lost;
CREATE INDEX search_index_file_node ON search_index_file USING btree (index_id, node_id) WHERE (node_id IS NOT NULL);
CREATE INDEX search_index_file_not_indexed ON search_index_file USING btree (index_id, path, id) WHERE (status = ANY (ARRAY['skipped'::text, 'failed'::text, 'removed'::text]));
CREATE INDEX search_index_file_path ON search_index_file USING btree (index_id, path, id);
CREATE INDEX search_index_file_pending ON search_index_file USING btree (index_id, id) WHERE (status = 'pending'::text);
CREATE INDEX search_index_file_smallest ON search_index_file USING btree (index_id, size_bytes, id) WHERE (status = 'pending'::text);
CREATE INDEX search_index_file_unembedded ON search_index_file USING btree (index_id, path, id) WHERE (NOT live_embedded);
CREATE INDEX search_index_file_words ON search_index_file USING btree (index_id, words_language) WHERE (live_chunks > 0);
CREATE UNIQUE INDEX search_index_identity ON search_index USING btree (project_id, identity) WHERE (deleted_at IS NULL);
CREATE INDEX search_index_task_delta_task ON search_index_task_delta USING btree (task_id);
CREATE INDEX search_index_task_index ON search_index_task USING btree (index_id, created_at DESC);
CREATE INDEX search_index_task_leftover ON search_index_task USING btree (finished_at) WHERE leftover;
CREATE UNIQUE INDEX search_index_task_open ON search_index_task USING btree (index_id) WHERE (status = ANY (ARRAY['pending'::text, 'indexing'::text]));
CREATE INDEX search_tool_following ON search_tool USING btree (project_id) WHERE (((config ->> 'auto_reindex'::text) = 'true'::text) OR ((config ->> 'watch'::text) = 'true'::text));
CREATE INDEX search_tool_index ON search_tool USING btree (index_id);
CREATE INDEX search_tool_next_index ON search_tool USING btree (next_index_id) WHERE (next_index_id IS NOT NULL);
CREATE INDEX search_tool_next_run ON search_tool USING btree (next_run_at) WHERE (next_run_at IS NOT NULL);
CREATE INDEX search_tool_project ON search_tool USING btree (project_id, created_at, id);
CREATE INDEX search_tool_raptor ON search_tool USING btree (index_id) WHERE ((config #>> '{raptor,enabled}'::text[]) = 'true'::text);
CREATE INDEX summary_cache_tree ON summary_cache USING btree (tree_id);
CREATE UNIQUE INDEX summary_tree_config ON summary_tree USING btree (index_id, md5((config)::text));
CREATE INDEX summary_tree_open ON summary_tree USING btree (sent_at) WHERE (status = ANY (ARRAY['pending'::text, 'indexing'::text]));
CREATE INDEX symbol_name ON symbol USING btree (index_id, name, file_id, number);
CREATE INDEX symbol_name_lower ON symbol USING btree (index_id, lower(name), file_id, number);
CREATE INDEX symbol_use_file ON symbol_use USING btree (file_id);
CREATE INDEX tree_node_level ON tree_node USING btree (tree_id, level, id);
CREATE INDEX tree_tombstone_index ON tree_tombstone USING btree (index_id, created_at);
CREATE TRIGGER search_index_file_symbols AFTER DELETE ON search_index_file FOR EACH ROW EXECUTE FUNCTION delete_symbols();
CREATE TRIGGER symbol_reference_written INSTEAD OF INSERT OR DELETE ON symbol_reference FOR EACH ROW EXECUTE FUNCTION write_symbol_reference();
ALTER TABLE ONLY chunk ADD CONSTRAINT chunk_file_id_fkey FOREIGN KEY (file_id) REFERENCES search_index_file(id) ON DELETE CASCADE;
ALTER TABLE ONLY chunk_tombstone ADD CONSTRAINT chunk_tombstone_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY content_node ADD CONSTRAINT content_node_project_id_parent_id_fkey FOREIGN KEY (project_id, parent_id) REFERENCES content_node(project_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY declined_work ADD CONSTRAINT declined_work_process_id_fkey FOREIGN KEY (process_id) REFERENCES host_process(id) ON DELETE CASCADE;
ALTER TABLE ONLY folder_refusal ADD CONSTRAINT folder_refusal_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY indexed_folder ADD CONSTRAINT indexed_folder_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY search_index_change ADD CONSTRAINT search_index_change_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY search_index_file ADD CONSTRAINT search_index_file_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY search_index_listing ADD CONSTRAINT search_index_listing_task_id_fkey FOREIGN KEY (task_id) REFERENCES search_index_task(id) ON DELETE CASCADE;
ALTER TABLE ONLY search_index_task ADD CONSTRAINT search_index_task_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY search_index_upkeep ADD CONSTRAINT search_index_upkeep_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY search_tool ADD CONSTRAINT search_tool_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id);
ALTER TABLE ONLY search_tool ADD CONSTRAINT search_tool_next_index_id_fkey FOREIGN KEY (next_index_id) REFERENCES search_index(id);
ALTER TABLE ONLY summary_cache ADD CONSTRAINT summary_cache_tree_id_fkey FOREIGN KEY (tree_id) REFERENCES summary_tree(id) ON DELETE CASCADE;
ALTER TABLE ONLY summary_tree ADD CONSTRAINT summary_tree_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
ALTER TABLE ONLY tree_leaf ADD CONSTRAINT tree_leaf_tree_id_fkey FOREIGN KEY (tree_id) REFERENCES summary_tree(id) ON DELETE CASCADE;
ALTER TABLE ONLY tree_node ADD CONSTRAINT tree_node_tree_id_fkey FOREIGN KEY (tree_id) REFERENCES summary_tree(id) ON DELETE CASCADE;
ALTER TABLE ONLY tree_tombstone ADD CONSTRAINT tree_tombstone_index_id_fkey FOREIGN KEY (index_id) REFERENCES search_index(id) ON DELETE CASCADE;
