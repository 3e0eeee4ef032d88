-- What the reader of a file could not make out, for files that are indexed all the same.

-- of the live text, like its properties; null: all was read
ALTER TABLE search_index_file ADD COLUMN note text;
