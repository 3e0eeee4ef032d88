-- Small files first, and how long the rest takes.

-- same columns as the ORDER BY of the claim; search_index_file_pending stays for workers of the previous release
CREATE INDEX search_index_file_smallest ON search_index_file (index_id, size_bytes, id) WHERE status = 'pending';
