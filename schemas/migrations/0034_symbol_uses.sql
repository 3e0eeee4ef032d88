-- A file uses a name three times on average, and each use was a row with three index entries: a third of what Postgres
-- wrote for a folder of code. The uses of a name in a file are one row now.

CREATE TABLE symbol_use (
    file_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    index_id uuid NOT NULL,
    -- an element for each use, in the order of the file
    numbers integer[] NOT NULL,
    kinds text[] NOT NULL,
    -- the definitions that contain the uses, each with its own name: "outer/inner", or ''
    scopes text[] COLLATE "C" NOT NULL,
    lines integer[] NOT NULL,
    PRIMARY KEY (index_id, name, file_id)
);

INSERT INTO symbol_use (file_id, name, index_id, numbers, kinds, scopes, lines)
SELECT file_id, name, index_id, array_agg(number ORDER BY number), array_agg(kind ORDER BY number),
       array_agg(scope ORDER BY number), array_agg(line ORDER BY number)
FROM symbol_reference GROUP BY index_id, name, file_id;

CREATE INDEX symbol_use_file ON symbol_use (file_id);

DROP TABLE symbol_reference;

CREATE VIEW symbol_reference AS
SELECT s.file_id, r.number, s.index_id, s.name, r.kind, r.scope, r.line
FROM symbol_use s CROSS JOIN LATERAL unnest(s.numbers, s.kinds, s.scopes, s.lines) AS r (number, kind, scope, line);

CREATE OR REPLACE FUNCTION delete_symbols() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM symbol WHERE file_id = OLD.id;
    DELETE FROM symbol_use WHERE file_id = OLD.id;
    RETURN NULL;
END
$$;

-- Workers of the previous release write and delete rows of the view.
CREATE FUNCTION write_symbol_reference() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM symbol_use WHERE index_id = OLD.index_id AND name = OLD.name AND file_id = OLD.file_id;
        RETURN OLD;
    END IF;
    INSERT INTO symbol_use AS s (file_id, name, index_id, numbers, kinds, scopes, lines)
    VALUES (NEW.file_id, NEW.name, NEW.index_id, ARRAY[NEW.number], ARRAY[NEW.kind], ARRAY[NEW.scope], ARRAY[NEW.line])
    ON CONFLICT (index_id, name, file_id) DO UPDATE
    SET numbers = s.numbers || excluded.numbers, kinds = s.kinds || excluded.kinds,
        scopes = s.scopes || excluded.scopes, lines = s.lines || excluded.lines;
    RETURN NEW;
END
$$;
CREATE TRIGGER symbol_reference_written INSTEAD OF INSERT OR DELETE ON symbol_reference
    FOR EACH ROW EXECUTE FUNCTION write_symbol_reference();
