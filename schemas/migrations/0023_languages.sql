-- The language by whose rules the words of a file's chunks were stemmed, as ISO 639-1 code. Null for words of an earlier
-- release, which all have English stems.
ALTER TABLE search_index_file ADD COLUMN words_language text;
-- A query asks which languages an index has.
CREATE INDEX search_index_file_words ON search_index_file (index_id, words_language) WHERE live_chunks > 0;
