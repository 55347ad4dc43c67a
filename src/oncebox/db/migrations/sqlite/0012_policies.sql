-- The policy with which an inbox was created, if its owner has changed it since: a program that is
-- started again still asks for that one.
ALTER TABLE oncebox_inboxes ADD COLUMN original_policy BLOB;
