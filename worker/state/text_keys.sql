-- name: kept
SELECT secret FROM text_key

-- name: make
-- of several processes at a time one makes the key
INSERT INTO text_key (secret) VALUES (%(secret)s) ON CONFLICT DO NOTHING
