-- What code defines, and which names it uses from where; written by finish with the file's chunks, gone with the file.

CREATE TABLE symbol (
    file_id uuid NOT NULL REFERENCES search_index_file (id) ON DELETE CASCADE,
    -- by place in the file
    number integer NOT NULL,
    index_id uuid NOT NULL,
    -- bytes are compared, so that one index serves equality, prefixes and order
    name text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    -- names of the definitions around it, "outer/inner", or ''
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
    -- of the definition that uses it, that definition's name included
    scope text COLLATE "C" NOT NULL,
    line integer NOT NULL,
    PRIMARY KEY (file_id, number)
);
CREATE INDEX symbol_reference_name ON symbol_reference (index_id, name, file_id, number);
