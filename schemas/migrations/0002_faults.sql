-- Columns for crashes, cancels, reruns and changes of an index.

ALTER TABLE search_index_file
    -- how often a process died while it parsed only this file
    ADD COLUMN crashes integer NOT NULL DEFAULT 0,
    -- a process that held it died: from now on it is claimed alone
    ADD COLUMN suspect boolean NOT NULL DEFAULT false,
    -- files that one process is parsing, including this one: if it dies with 1, this file caused it
    ADD COLUMN parsing integer NOT NULL DEFAULT 0,
    -- full: read the file even if its content is already live
    DROP CONSTRAINT search_index_file_work_check,
    ADD CONSTRAINT search_index_file_work_check CHECK (work IN ('read', 'path', 'remove', 'full'));

ALTER TABLE search_index_task
    -- read every file again, whatever its stamp
    ADD COLUMN "full" boolean NOT NULL DEFAULT false,
    -- options of the next task that `rerun` requests
    ADD COLUMN rerun_full boolean NOT NULL DEFAULT false,
    ADD COLUMN rerun_allow_removals boolean NOT NULL DEFAULT false,
    -- when the counts were last computed from the file rows, and how long that took
    ADD COLUMN refreshed_at timestamptz,
    ADD COLUMN refresh_seconds double precision NOT NULL DEFAULT 0,
    DROP CONSTRAINT search_index_task_kind_check,
    ADD CONSTRAINT search_index_task_kind_check CHECK (kind IN ('create', 'reindex', 'retry', 'update'));

ALTER TABLE search_tool
    -- the index that is built beside the present one, and its config
    ADD COLUMN next_index_id uuid REFERENCES search_index (id),
    ADD COLUMN next_config jsonb,
    -- why the last change of the config failed
    ADD COLUMN update_error text;
CREATE INDEX search_tool_next_index ON search_tool (next_index_id) WHERE next_index_id IS NOT NULL;

-- A vector that is no longer cached may still be live with the same text. By index, so that the time of a look-up in
-- one project does not depend on another project.
CREATE INDEX chunk_content_hash ON chunk (index_id, hashtextextended(content_hash, 0)) WHERE live;
CREATE INDEX embedding_cache_used ON embedding_cache (used_at);
-- when a periodic job of a single worker was last started
CREATE TABLE upkeep (
    name text PRIMARY KEY,
    ran_at timestamptz NOT NULL
);

-- live chunks whose vector the namespace lost, and files with such chunks: the next task writes them again
ALTER TABLE chunk ADD COLUMN lost boolean NOT NULL DEFAULT false;
ALTER TABLE search_index_file ADD COLUMN lost boolean NOT NULL DEFAULT false;
CREATE INDEX search_index_file_lost ON search_index_file (index_id) WHERE lost;
-- when the namespace was last compared with the rows; null: the sweep should compare it now
ALTER TABLE search_index ADD COLUMN checked_at timestamptz DEFAULT now();
CREATE INDEX search_index_checked ON search_index (checked_at) WHERE deleted_at IS NULL;
