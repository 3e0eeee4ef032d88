-- When each kind of work last served a project. Of projects with equally much at work, the one served longest ago is next.
-- The number only grows, unlike a clock.

CREATE TABLE project_turn (
    project_id text NOT NULL,
    work text NOT NULL,
    number bigserial NOT NULL,
    PRIMARY KEY (project_id, work)
);
