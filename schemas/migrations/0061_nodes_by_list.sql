-- transactional: false
-- squawk-disable-assume-in-transaction
-- Finds nodes and lists by what admits a caller. Hidden ones cost no time, so response times do not reveal them.

-- each list is found at once, so none waits in the index to be filed
CREATE INDEX CONCURRENTLY IF NOT EXISTS acl_class_entries ON acl_class USING gin (acl_keys(project_id, entries))
WITH (fastupdate = off);

-- the list comes first: for an empty table, any index that begins with the project looks as good as that of the ids
CREATE INDEX CONCURRENTLY IF NOT EXISTS content_node_seen
    ON content_node (coalesce(acl_class, 0), project_id, parent_id, substr(name, 1, 200) COLLATE "C");
