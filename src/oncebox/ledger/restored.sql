-- name: void_deliveries
-- Raise the fences of what may still be worked on above all that were given since the backup.
UPDATE oncebox_deliveries SET fence = fence + :jump
WHERE state IN ('received', 'processing', 'failed', 'held', 'dead');

-- name: void_sends
-- The same for sends that have not ended as sent.
UPDATE oncebox_sends SET fence = fence + :jump WHERE state NOT IN ('sent', 'logged');

-- name: void_actions
-- The same for actions that are not done.
UPDATE oncebox_actions SET fence = fence + :jump WHERE state <> 'done';

-- name: void_duties
-- The same for what one process does for all.
UPDATE oncebox_duties SET fence = fence + :jump;
