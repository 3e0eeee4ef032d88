-- A listing marks the files that it lacks. It need not mark those that it sees, if all are as they were.

ALTER TABLE search_index_listing ADD COLUMN absent boolean NOT NULL DEFAULT false;
