-- The chunks of open files that the store may hold although they have no row yet: their rows are written once, live.

CREATE TABLE chunk_draft (
    file_id uuid PRIMARY KEY REFERENCES search_index_file (id) ON DELETE CASCADE,
    index_id uuid NOT NULL,
    ids uuid[] NOT NULL
);
CREATE INDEX chunk_draft_index ON chunk_draft (index_id);
