-- Lists by state, tenant and owner, found without reading the others. No delivery and no action
-- that goes well has an entry of its own in them, except in an installation with several tenants.
DROP INDEX oncebox_deliveries_attention;
CREATE INDEX oncebox_deliveries_attention ON oncebox_deliveries (tenant, state, id)
    WHERE state IN ('dead', 'held', 'failed');
CREATE INDEX oncebox_deliveries_tenant ON oncebox_deliveries (tenant, id)
    WHERE tenant <> 'default';
-- Whose turn it is in a lane.
CREATE INDEX oncebox_deliveries_lane_turn
    ON oncebox_deliveries (tenant, source, lane, lane_position)
    WHERE lane_position IS NOT NULL AND due_at IS NOT NULL
        AND state IN ('received', 'processing', 'failed');
CREATE INDEX oncebox_actions_open ON oncebox_actions (tenant, started_at) WHERE state <> 'done';
CREATE INDEX oncebox_inboxes_state ON oncebox_inboxes (tenant, state, id);
CREATE INDEX oncebox_sends_owner ON oncebox_sends (tenant, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX oncebox_sends_state ON oncebox_sends (tenant, state, id)
    WHERE state IN ('unknown', 'failed', 'suppressed', 'cancelled', 'expired');
