-- What of a tool's config matched nothing in its folder.

ALTER TABLE search_index_task
    -- entries of the config that matched something in the listing so far; null: not noted
    ADD COLUMN matched text[],
    -- what the last complete listing found wrong with the config
    ADD COLUMN listing_warning text;
