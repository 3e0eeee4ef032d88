-- Definitions in code, and the names that it uses. Finish writes them with the file's chunks; they go with the file.

CREATE TABLE symbol (
    file_id uuid NOT NULL REFERENCES search_index_file (id) ON DELETE CASCADE,
    -- in the order of the file
    number integer NOT NULL,
    index_id uuid NOT NULL,
    -- compared by bytes, so that one index serves equality, prefixes and order
    name text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    -- names of the enclosing definitions, "outer/inner", or ''
    scope text COLLATE "C" NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    signature text NOT NULL,
    PRIMARY KEY (file_id, number)
);
CREATE INDEX symbol_name ON symbol (index_id, name, file_id, number);

CREATE TABLE symbol_reference (
    file_id uuid NOT NULL REFERENCES search_index_file (id) ON DELETE CASCADE,
    number integer NOT NULL,
    index_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    -- the definition that uses it, including that definition's own name
    scope text COLLATE "C" NOT NULL,
    line integer NOT NULL,
    PRIMARY KEY (file_id, number)
);
CREATE INDEX symbol_reference_name ON symbol_reference (index_id, name, file_id, number);
