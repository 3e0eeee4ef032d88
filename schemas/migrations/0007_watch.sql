-- What uploads, and tools that follow their folder by themselves, need.

-- Objects that no node names, or none yet: written down before an object is stored, taken out by the transaction that
-- makes a node name it. Whatever dies in between, the sweep deletes what is left here.
CREATE TABLE content_stray (
    key text PRIMARY KEY,
    due_at timestamptz NOT NULL,
    -- the sweep deletes the object: from now on no node may name it
    given_up boolean NOT NULL DEFAULT false
);
CREATE INDEX content_stray_due ON content_stray (due_at);
CREATE INDEX content_node_object ON content_node (object_key) WHERE object_key IS NOT NULL;
-- a hash, as a name may be longer than an index row; it takes the place of the index by parent alone
CREATE INDEX content_node_name ON content_node (project_id, parent_id, hashtextextended(name, 0));
DROP INDEX content_node_parent;

-- Indexes that follow their folder. A row of its own: whoever marks a change waits for nobody that finishes files.
CREATE TABLE search_index_change (
    index_id uuid PRIMARY KEY REFERENCES search_index (id) ON DELETE CASCADE,
    -- the first change that no run has taken up; null: there is none
    since timestamptz,
    -- when a run is to take up what changed: after some quiet
    due_at timestamptz,
    -- when a change last led to a run, and before when a watch must not start the next one
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

-- the code of what ended a task, such as folder_gone
ALTER TABLE search_index_task ADD COLUMN error_code text;
