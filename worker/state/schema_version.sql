-- name: has_table
SELECT to_regclass('_yoyo_migration') IS NOT NULL

-- name: applied
SELECT migration_id FROM _yoyo_migration
