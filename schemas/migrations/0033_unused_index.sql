-- Each claim of a file wrote to it, and no query needs it: search_index_file_held finds the files that are worked on, also
-- those of a release that knows only lease_until.

DROP INDEX search_index_file_leased;
