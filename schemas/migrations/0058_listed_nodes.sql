-- transactional: false
-- squawk-disable-assume-in-transaction
-- whether an index may have files that lists hide

CREATE INDEX CONCURRENTLY IF NOT EXISTS content_node_listed ON content_node (project_id, id_path)
WHERE acl_class IS NOT NULL;
