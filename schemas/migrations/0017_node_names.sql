-- The nodes of a folder by name. A prefix of the name, because a whole name may be longer than an index row.

CREATE INDEX content_node_order ON content_node (project_id, parent_id, left(name, 200) COLLATE "C");
