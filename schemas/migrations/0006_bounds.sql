-- Files outside a tool's token bounds are found by keywords only.

-- false: the live chunks of the file have no vectors
ALTER TABLE search_index_file ADD COLUMN live_embedded boolean NOT NULL DEFAULT true;
CREATE INDEX search_index_file_unembedded ON search_index_file (index_id, path, id) WHERE NOT live_embedded;
