-- The places outside its own content tree that a project may read.

CREATE TABLE source_grant (
    project_id text NOT NULL,
    -- an absolute path, or s3://bucket/prefix/
    place text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, place)
);

-- existing tools keep working
INSERT INTO source_grant (project_id, place)
SELECT DISTINCT project_id,
    CASE source ->> 'kind'
        WHEN 'local' THEN source ->> 'path'
        ELSE 's3://' || (source ->> 'bucket') || '/' || coalesce(source ->> 'prefix', '') END
FROM search_tool WHERE source ->> 'kind' IN ('local', 's3');
