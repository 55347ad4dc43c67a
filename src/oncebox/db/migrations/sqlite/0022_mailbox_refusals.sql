-- Consecutive refusals that an operator must fix, such as a wrong password.
ALTER TABLE oncebox_mailboxes ADD COLUMN refusals INTEGER NOT NULL DEFAULT 0;
