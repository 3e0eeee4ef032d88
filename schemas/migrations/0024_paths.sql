-- Runs that list only some paths of a folder.

ALTER TABLE search_index_task
    -- relative to the folder; null: the whole folder
    ADD COLUMN paths text[],
    -- the same of the run that follows
    ADD COLUMN rerun_paths text[];
