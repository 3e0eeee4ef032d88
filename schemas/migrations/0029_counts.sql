-- Counts, cancels and checks of large indexes.

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
    removing bigint NOT NULL
);
CREATE INDEX search_index_task_delta_task ON search_index_task_delta (task_id);

ALTER TABLE search_index_task
    -- when the files were last counted by a release that also deletes what is noted
    ADD COLUMN counted_at timestamptz,
    -- bytes of the files that are left to remove, and one more for each
    ADD COLUMN removing bigint NOT NULL DEFAULT 0,
    -- whether an ended task left rows that the sweep returns or deletes in parts, and the last file that it returned
    ADD COLUMN leftover boolean NOT NULL DEFAULT false,
    ADD COLUMN leftover_after uuid;
CREATE INDEX search_index_task_leftover ON search_index_task (finished_at) WHERE leftover;

-- how often the namespace is compared with the rows, less often where nothing happens; null until the next check
ALTER TABLE search_index ADD COLUMN check_every interval;
