-- Files have seven symbols and references for each chunk, and the check that its file exists took a third of the time
-- of writing one. The transaction that writes them has locked the file's row already. A trigger replaces the cascade.

CREATE FUNCTION delete_symbols() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM symbol WHERE file_id = OLD.id;
    DELETE FROM symbol_reference WHERE file_id = OLD.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER search_index_file_symbols AFTER DELETE ON search_index_file
    FOR EACH ROW EXECUTE FUNCTION delete_symbols();
ALTER TABLE symbol DROP CONSTRAINT symbol_file_id_fkey;
ALTER TABLE symbol_reference DROP CONSTRAINT symbol_reference_file_id_fkey;
