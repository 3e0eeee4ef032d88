-- Files that have vanished from their folder, and whose removal is held.

ALTER TABLE search_index_file ADD COLUMN missing boolean NOT NULL DEFAULT false;
