-- Which directory of vectors, and which one of contents, belongs to this database.

CREATE TABLE installation (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO installation DEFAULT VALUES;

CREATE TABLE store_directory (
    -- a vector store, or "objects"
    kind text PRIMARY KEY,
    -- the id in the directory's mark, and that of the FOLDEX_HOME in which the directory was first seen
    id uuid NOT NULL,
    home uuid,
    -- since when, and when last, a process of that home found no directory there
    missing_since timestamptz,
    missing_at timestamptz,
    -- when a process last refused another directory, and why
    refused_at timestamptz,
    refusal text
);
