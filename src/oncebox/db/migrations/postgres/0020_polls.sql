-- Mailboxes that programs poll: the first message, and deadlines that passed without one.
ALTER TABLE oncebox_mailboxes ADD COLUMN first_message_at BIGINT;
ALTER TABLE oncebox_mailboxes ADD COLUMN timeouts BIGINT NOT NULL DEFAULT 0;

-- Workers of the service claim the mailboxes that the service reads.
DROP INDEX oncebox_mailboxes_due;
CREATE INDEX oncebox_mailboxes_due ON oncebox_mailboxes (due_at)
    WHERE due_at IS NOT NULL AND kind <> 'program';
