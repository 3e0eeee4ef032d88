-- What is left of reading files, by the kind of the file. For text and documents it is in bytes, with 1,024 for opening
-- each file; for images it is their number. `read` is what the task itself has read, and `ms` the milliseconds that took.

ALTER TABLE search_index_task
    ADD COLUMN text_left bigint NOT NULL DEFAULT 0,
    ADD COLUMN text_read bigint NOT NULL DEFAULT 0,
    ADD COLUMN text_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN document_left bigint NOT NULL DEFAULT 0,
    ADD COLUMN document_read bigint NOT NULL DEFAULT 0,
    ADD COLUMN document_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_left bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_read bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_ms bigint NOT NULL DEFAULT 0;

ALTER TABLE search_index_task_delta
    ADD COLUMN text_left bigint NOT NULL DEFAULT 0,
    ADD COLUMN text_read bigint NOT NULL DEFAULT 0,
    ADD COLUMN text_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN document_left bigint NOT NULL DEFAULT 0,
    ADD COLUMN document_read bigint NOT NULL DEFAULT 0,
    ADD COLUMN document_ms bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_left bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_read bigint NOT NULL DEFAULT 0,
    ADD COLUMN image_ms bigint NOT NULL DEFAULT 0;
