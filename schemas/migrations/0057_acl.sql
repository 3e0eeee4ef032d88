-- Who may read a node, and all below it.

-- The lists of principals of a project, each once: `user:…`, `group:…`, `role:…`, `*` for everybody; `!` denies.
CREATE TABLE acl_class (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project_id text NOT NULL,
    -- sorted, each entry once
    entries text[] NOT NULL,
    -- a hash of the entries
    digest bytea NOT NULL,
    UNIQUE (project_id, digest)
);

ALTER TABLE content_node
    -- the list of the node itself; null: none
    ADD COLUMN own_acl integer,
    -- that of the node, or else of the nearest folder above that has one; null: everybody may read
    ADD COLUMN acl_class integer;

-- Each new or moved node gets its effective list, also from a process of an older release, which knows none. What is
-- below a moved folder gets it from the API.
--
-- A session keeps the plan of its first calls. Made for an empty table, that would read all rows for each new one.
CREATE FUNCTION set_acl_class() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    NEW.acl_class := coalesce(NEW.own_acl, (
        SELECT p.acl_class FROM content_node p WHERE p.project_id = NEW.project_id AND p.id = NEW.parent_id));
    RETURN NEW;
END
$$;
CREATE TRIGGER content_node_new_acl BEFORE INSERT ON content_node FOR EACH ROW EXECUTE FUNCTION set_acl_class();
CREATE TRIGGER content_node_changed_acl BEFORE UPDATE OF own_acl, parent_id ON content_node FOR EACH ROW
WHEN ((OLD.own_acl, OLD.parent_id) IS DISTINCT FROM (NEW.own_acl, NEW.parent_id)) EXECUTE FUNCTION set_acl_class();

ALTER TABLE metadata_change
    -- grows only with changes after which somebody may read less than before
    ADD COLUMN acl_version bigint NOT NULL DEFAULT 0;

ALTER TABLE search_index_file
    -- the stamp of what is live; null: that of an earlier release is, which has `stamp` until a run lists another one
    ADD COLUMN live_stamp text;
