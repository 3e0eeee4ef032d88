-- Metadata of nodes, which searches filter by.

ALTER TABLE content_node
    -- a flat object of the node's own values; null: none
    ADD COLUMN metadata jsonb,
    -- the same with the values of the folders above, which own ones replace; the API updates it with each change of them
    ADD COLUMN all_metadata jsonb;

-- A number for each project that grows whenever values of its nodes change, so that caches notice.
CREATE TABLE metadata_change (
    project_id text PRIMARY KEY,
    version bigint NOT NULL DEFAULT 1
);
