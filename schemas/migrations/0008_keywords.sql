-- Identifiers and their parts, if KEYWORD_INDEX=postgres; label A marks those of the file's path. Null for chunks that
-- were written before: they are found by their natural language only.
ALTER TABLE chunk ADD COLUMN code tsvector;
CREATE INDEX chunk_code ON chunk USING gin (code) WHERE code IS NOT NULL;
