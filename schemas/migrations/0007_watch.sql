-- Tables for uploads, and for tools that follow their folder automatically.

-- Objects that no node refers to yet, or any more. The row is written before the object is stored. The transaction that
-- makes a node refer to the object removes the row. If a process dies in between, the sweep deletes the object.
CREATE TABLE content_stray (
    key text PRIMARY KEY,
    due_at timestamptz NOT NULL,
    -- the sweep is deleting the object: from now on no node may refer to it
    given_up boolean NOT NULL DEFAULT false
);
CREATE INDEX content_stray_due ON content_stray (due_at);
CREATE INDEX content_node_object ON content_node (object_key) WHERE object_key IS NOT NULL;
-- by hash, because a name may be longer than an index row; replaces the index by parent alone
CREATE INDEX content_node_name ON content_node (project_id, parent_id, hashtextextended(name, 0));
DROP INDEX content_node_parent;

-- Indexes that follow their folder. A separate row, so that recording a change never waits for finishing files.
CREATE TABLE search_index_change (
    index_id uuid PRIMARY KEY REFERENCES search_index (id) ON DELETE CASCADE,
    -- the first change that no run covers; null: there is none
    since timestamptz,
    -- when a run should cover the changes, after a quiet period
    due_at timestamptz,
    -- when a change last started a run, and the earliest time at which a watch may start the next one
    ran_at timestamptz,
    rest_until timestamptz,
    -- what the watch last saw of a content tree
    seen text
);
CREATE INDEX search_index_change_due ON search_index_change (due_at) WHERE due_at IS NOT NULL;

ALTER TABLE search_tool ADD COLUMN next_run_at timestamptz;
CREATE INDEX search_tool_next_run ON search_tool (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX search_tool_following ON search_tool (project_id)
    WHERE config ->> 'auto_reindex' = 'true' OR config ->> 'watch' = 'true';

-- the code of the error that ended a task, such as folder_gone
ALTER TABLE search_index_task ADD COLUMN error_code text;
