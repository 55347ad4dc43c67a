-- Data keys, each wrapped under every master key that opens the database. Without a row, the
-- master key itself is the only one.
CREATE TABLE oncebox_data_keys (
    master_key_id TEXT COLLATE "C" NOT NULL,
    -- in front of every value that it encrypts
    generation BIGINT NOT NULL,
    wrapped BYTEA NOT NULL,
    -- from when on processes encrypt with it; before, they learn of it
    active_from BIGINT NOT NULL,
    PRIMARY KEY (master_key_id, generation)
);

-- The rotation of the master key that has begun, if any.
CREATE TABLE oncebox_rotation (
    number BIGINT PRIMARY KEY CHECK (number = 1),
    old_key_id TEXT COLLATE "C" NOT NULL,
    new_key_id TEXT COLLATE "C" NOT NULL,
    generation BIGINT NOT NULL,
    active_from BIGINT NOT NULL,
    -- the column whose values are encrypted again, and the key of its last row; empty at the end
    place TEXT COLLATE "C" NOT NULL,
    after TEXT COLLATE "C" NOT NULL,
    CHECK (old_key_id <> new_key_id)
);
