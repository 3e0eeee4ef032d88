-- The tools that asked for the run that follows: it keeps within their limits.

ALTER TABLE search_index_task
    ADD COLUMN rerun_tool_ids uuid[] NOT NULL DEFAULT '{}';
