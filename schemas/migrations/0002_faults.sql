-- What crashes, cancels, reruns and changes of an index need.

ALTER TABLE search_index_file
    -- how often a process died while it parsed this file and no other
    ADD COLUMN crashes integer NOT NULL DEFAULT 0,
    -- was in the hands of a process that died: from now on it is claimed alone
    ADD COLUMN suspect boolean NOT NULL DEFAULT false,
    -- files that are being parsed by one process, this one among them: if it dies with 1, that was this file's doing
    ADD COLUMN parsing integer NOT NULL DEFAULT 0,
    -- full: as read, even if its content is what is live
    DROP CONSTRAINT search_index_file_work_check,
    ADD CONSTRAINT search_index_file_work_check CHECK (work IN ('read', 'path', 'remove', 'full'));

ALTER TABLE search_index_task
    -- read every file again, whatever its stamp
    ADD COLUMN "full" boolean NOT NULL DEFAULT false,
    -- options of the further task that `rerun` asks for
    ADD COLUMN rerun_full boolean NOT NULL DEFAULT false,
    ADD COLUMN rerun_allow_removals boolean NOT NULL DEFAULT false,
    -- when the counts were last taken from the file rows, and how long that took
    ADD COLUMN refreshed_at timestamptz,
    ADD COLUMN refresh_seconds double precision NOT NULL DEFAULT 0,
    DROP CONSTRAINT search_index_task_kind_check,
    ADD CONSTRAINT search_index_task_kind_check CHECK (kind IN ('create', 'reindex', 'retry', 'update'));

ALTER TABLE search_tool
    -- the index that is built beside the present one, with the config it answers to
    ADD COLUMN next_index_id uuid REFERENCES search_index (id),
    ADD COLUMN next_config jsonb,
    -- why the last change of the config did not come about
    ADD COLUMN update_error text;
CREATE INDEX search_tool_next_index ON search_tool (next_index_id) WHERE next_index_id IS NOT NULL;

-- a vector that is not cached any more may still be live under the same text; by index, so that a look-up in one project
-- takes no time that depends on another's
CREATE INDEX chunk_content_hash ON chunk (index_id, hashtextextended(content_hash, 0)) WHERE live;
CREATE INDEX embedding_cache_used ON embedding_cache (used_at);
-- when something that one worker does now and then was last begun
CREATE TABLE upkeep (
    name text PRIMARY KEY,
    ran_at timestamptz NOT NULL
);

-- a live chunk whose vector the namespace lost, and a file that has such chunks: the next task writes them again
ALTER TABLE chunk ADD COLUMN lost boolean NOT NULL DEFAULT false;
ALTER TABLE search_index_file ADD COLUMN lost boolean NOT NULL DEFAULT false;
CREATE INDEX search_index_file_lost ON search_index_file (index_id) WHERE lost;
-- when the namespace was last compared with the rows; null: the sweep is to do it now
ALTER TABLE search_index ADD COLUMN checked_at timestamptz DEFAULT now();
CREATE INDEX search_index_checked ON search_index (checked_at) WHERE deleted_at IS NULL;
