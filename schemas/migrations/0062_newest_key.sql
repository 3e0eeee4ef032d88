-- transactional: false
-- squawk-disable-assume-in-transaction
-- While a table is empty, all indexes that begin with the project look alike, and the planner takes the newest. A session
-- keeps that plan: it would read all nodes of the project to find the parent of each new one.

DROP INDEX CONCURRENTLY IF EXISTS content_node_pkey_ccnew;
DROP INDEX CONCURRENTLY IF EXISTS content_node_pkey_ccold;
REINDEX INDEX CONCURRENTLY content_node_pkey;
