-- What a document says of itself: title, author, description, keywords, created and modified, as far as it states them.
-- Null for one that states nothing, and for files that an earlier release read.
ALTER TABLE search_index_file ADD COLUMN properties jsonb;
