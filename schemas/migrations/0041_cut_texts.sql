-- Texts that are longer than the model takes are cut again.

ALTER TABLE search_index_task
    -- whether the provider refused some text of the run for its length
    ADD COLUMN cut_texts boolean NOT NULL DEFAULT false;
