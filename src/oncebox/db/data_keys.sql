-- name: of_master_key
-- The data keys that a master key unwraps.
SELECT generation, wrapped, active_from FROM oncebox_data_keys
WHERE master_key_id = :master_key_id ORDER BY generation;
