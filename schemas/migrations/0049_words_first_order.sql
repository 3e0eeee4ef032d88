-- transactional: false
-- squawk-disable-assume-in-transaction
-- the order of claims: files without their words, then those that only lack vectors
CREATE INDEX CONCURRENTLY IF NOT EXISTS search_index_file_due
    ON search_index_file (index_id, awaits_vectors, size_bytes, id) WHERE status = 'pending';
