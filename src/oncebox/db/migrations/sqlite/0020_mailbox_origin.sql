-- Where a mailbox is written: database, by command or API; file, in the settings.
ALTER TABLE oncebox_mailboxes ADD COLUMN origin TEXT NOT NULL DEFAULT 'database';
