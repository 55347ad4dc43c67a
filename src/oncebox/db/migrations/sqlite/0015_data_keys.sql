-- Data keys, each wrapped under every master key that opens the database. Without a row, the
-- master key itself is the only one.
CREATE TABLE oncebox_data_keys (
    master_key_id TEXT NOT NULL,
    -- in front of every value that it encrypts
    generation INTEGER NOT NULL,
    wrapped BLOB NOT NULL,
    -- from when on processes encrypt with it; before, they learn of it
    active_from INTEGER NOT NULL,
    PRIMARY KEY (master_key_id, generation)
) STRICT, WITHOUT ROWID;

-- The rotation of the master key that has begun, if any.
CREATE TABLE oncebox_rotation (
    number INTEGER PRIMARY KEY CHECK (number = 1),
    old_key_id TEXT NOT NULL,
    new_key_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    active_from INTEGER NOT NULL,
    -- the column whose values are encrypted again, and the key of its last row; empty at the end
    place TEXT NOT NULL,
    after TEXT NOT NULL,
    CHECK (old_key_id <> new_key_id)
) STRICT, WITHOUT ROWID;
