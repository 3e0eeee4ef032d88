-- The alarm for tasks that no worker works on.

ALTER TABLE search_index_task
    -- when the task's counts last changed, or a worker last held its listing or its files
    ADD COLUMN moved_at timestamptz;
