-- name: kept
SELECT secret FROM text_key

-- name: make
-- one of several concurrent processes makes the key
INSERT INTO text_key (secret) VALUES (%(secret)s) ON CONFLICT DO NOTHING
