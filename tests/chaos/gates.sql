-- Gates that stop a process at a stage of its work: a test holds an advisory lock, and a trigger waits for it.
-- The tests install them in their own database; they are no part of the product.

CREATE TABLE gate (key bigint PRIMARY KEY, point text NOT NULL, project_id text NOT NULL, error text);

CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    closed record;
BEGIN
    FOR closed IN
        SELECT g.key, g.error FROM public.gate g
        WHERE g.point = TG_ARGV[0]
          AND (g.project_id = '' OR g.project_id = (SELECT i.project_id FROM search_index i WHERE i.id = NEW.index_id))
    LOOP
        IF closed.error IS NOT NULL THEN
            RAISE EXCEPTION 'told to fail' USING ERRCODE = closed.error;
        END IF;
        PERFORM pg_advisory_xact_lock_shared(closed.key);
    END LOOP;
    RETURN NEW;
END $$;

CREATE TRIGGER gate_plan_page BEFORE INSERT ON search_index_file FOR EACH ROW EXECUTE FUNCTION gate('plan-page');

CREATE TRIGGER gate_plan_end BEFORE UPDATE ON search_index_task FOR EACH ROW
WHEN (OLD.listing AND NOT NEW.listing) EXECUTE FUNCTION gate('plan-end');

CREATE TRIGGER gate_plan_done BEFORE UPDATE ON search_index_task FOR EACH ROW
-- the first count after a listing, which may have been counted before it ended
WHEN (NOT OLD.listing AND NOT NEW.listing AND OLD.status = 'indexing' AND OLD.counted_at IS NULL AND NEW.counted_at IS NOT NULL)
EXECUTE FUNCTION gate('plan-done');

CREATE TRIGGER gate_claim BEFORE UPDATE ON search_index_file FOR EACH ROW
WHEN (OLD.status = 'pending' AND NEW.status = 'indexing') EXECUTE FUNCTION gate('claim');

CREATE TRIGGER gate_chunk_rows BEFORE INSERT ON chunk FOR EACH ROW EXECUTE FUNCTION gate('chunk-rows');

CREATE TRIGGER gate_finish BEFORE UPDATE ON search_index_file FOR EACH ROW
WHEN (OLD.status = 'indexing' AND NEW.status IN ('indexed', 'skipped', 'failed', 'removed'))
EXECUTE FUNCTION gate('finish');

-- The steps of a file whose vectors are late: its words are about to be live, it is claimed anew, it has its vectors.
CREATE TRIGGER gate_draft BEFORE INSERT ON chunk_draft FOR EACH ROW EXECUTE FUNCTION gate('draft');

CREATE TRIGGER gate_words BEFORE UPDATE ON search_index_file FOR EACH ROW
WHEN (OLD.status = 'indexing' AND NEW.status = 'pending' AND NEW.awaits_vectors AND NOT OLD.awaits_vectors)
EXECUTE FUNCTION gate('words');

CREATE TRIGGER gate_vector_claim BEFORE UPDATE ON search_index_file FOR EACH ROW
WHEN (OLD.status = 'pending' AND NEW.status = 'indexing' AND OLD.awaits_vectors)
EXECUTE FUNCTION gate('vector-claim');

CREATE TRIGGER gate_vectors BEFORE UPDATE ON search_index_file FOR EACH ROW
WHEN (OLD.status = 'indexing' AND OLD.awaits_vectors AND NEW.status IN ('indexed', 'failed'))
EXECUTE FUNCTION gate('vectors');

CREATE TRIGGER gate_close BEFORE UPDATE ON search_index_task FOR EACH ROW
WHEN (OLD.status = 'indexing' AND NEW.status = 'ready') EXECUTE FUNCTION gate('close');
