"""Large tables: every table of the ledger, filled by one statement on both databases.

Most rows are of the tenant ``acme``, which has one large inbox and one long lane; the tenant
``tiny`` has a few rows that are older than all of them.
"""

from collections.abc import Mapping

#: milliseconds since 1970 of row 0, and between two rows
START = 1_700_000_000_000
STEP = 1_000
#: ids count from here, so that text order is the order of numbers
FIRST = 10_000_000
#: rows of the tenant ``tiny``, the first ones
TINY = 10
#: rows at the end that are in progress, and events at the end without a number
OPEN = 3000

Columns = Mapping[str, str]

_ID = f"({FIRST} + i)"
_AT = f"({START} + i * {STEP})"
_TENANT = f"CASE WHEN i < {TINY} THEN 'tiny' ELSE 'acme' END"
#: the half of all messages and artifacts is in one inbox, the others have two each
_INBOX = f"'inb_' || CASE WHEN i % 2 = 0 THEN {FIRST} + 77 ELSE {FIRST} + i / 4 END"
_LANE = "CASE WHEN i % 20 < 18 THEN 'long' ELSE 'lane' || (i % 500) END"
_IN_LANE = "i % 5 = 2"
_OPEN = f"i > {{rows}} - {OPEN}"

#: done, mostly; a tenth each is due, waits in a lane, is dead or held; none has failed
_DELIVERY_STATE = f"""CASE
    WHEN {_IN_LANE} THEN 'received'
    WHEN i % 10 = 1 THEN 'received'
    WHEN {_OPEN} THEN 'processing'
    WHEN i % 10 = 3 THEN 'dead'
    WHEN i % 10 = 4 THEN 'held'
    ELSE 'done' END"""
_DELIVERY_DUE = f"""CASE
    WHEN {_IN_LANE} THEN NULL
    WHEN i % 10 = 1 THEN {_AT}
    WHEN {_OPEN} THEN {_AT} + (i % 2) * 10000000 END"""
#: sent, mostly; a tenth each in doubt, failed, expired; some in progress; none is pending
_SEND_STATE = f"""CASE
    WHEN {_OPEN} THEN CASE WHEN i % 2 = 0 THEN 'claimed' ELSE 'sending' END
    WHEN i % 10 = 1 THEN 'unknown'
    WHEN i % 10 = 2 THEN 'failed'
    WHEN i % 10 = 3 THEN 'expired'
    ELSE 'sent' END"""

_SOURCE = "CASE WHEN i % 7 = 3 THEN '@mail' WHEN i % 1000 = 500 THEN 'rare' ELSE 'shop' END"
_INBOX_STATE = f"CASE WHEN {_OPEN} THEN 'draining' WHEN i % 10 < 9 THEN 'closed' ELSE 'active' END"

TABLES: Mapping[str, Columns] = {
    "oncebox_payloads": {
        "id": f"'dlv_' || {_ID}",
        "headers": "{blob}'[]'{/blob}",
        "body": "{blob}'body of ' || i{/blob}",
    },
    "oncebox_deliveries": {
        "id": f"'dlv_' || {_ID}",
        "tenant": _TENANT,
        "source": _SOURCE,
        "key": f"'inb_' || ({FIRST} + i / 4) || ':' || i",
        "variant": "''",
        "key_digest": f"{{blob}}'key_dig_' || {_ID}{{/blob}}",
        "body_digest": f"CASE WHEN i % 2 = 1 THEN {{blob}}'bod_dig_' || {_ID}{{/blob}} END",
        "type": "'order.created'",
        "road": "'http'",
        "fingerprint": "{blob}'fingerprint ' || i{/blob}",
        "payload_id": f"'dlv_' || CASE WHEN i % 50 = 9 THEN {_ID} - 1 ELSE {_ID} END",
        "size": "10",
        "heavy": "CASE WHEN i % 7 = 3 AND i % 4 = 1 THEN 1 ELSE 0 END",
        "lane": f"CASE WHEN {_IN_LANE} THEN {_LANE} END",
        "lane_position": f"CASE WHEN {_IN_LANE} THEN i END",
        "sequence": f"CASE WHEN {_IN_LANE} THEN i END",
        "state": _DELIVERY_STATE,
        "due_at": _DELIVERY_DUE,
        "received_at": _AT,
        "accepted_at": _AT,
        "tries": "i % 2",
        "fence": "i % 3",
        "worker": "'worker' || (i % 10)",
        "claimed_at": _AT,
        "give_up_at": f"{_AT} + 100000000",
        "hold_reason": "'test'",
        "held_at": _AT,
        "ended_at": _AT,
        "purged_at": f"CASE WHEN i % 100 = 0 THEN {_AT} END",
    },
    "oncebox_lanes": {
        "tenant": "'acme'",
        "source": "'shop'",
        "lane": "CASE WHEN i = 0 THEN 'long' ELSE 'lane' || i END",
        "last_position": "i",
        "last_sequence": "i",
        "turn": f"'dlv_' || {_ID}",
    },
    "oncebox_lane_types": {
        "tenant": "'acme'",
        "source": "'shop'",
        "lane": "CASE WHEN i % 2 = 0 THEN 'long' ELSE 'lane' || i END",
        "type": "{blob}'type ' || i{/blob}",
    },
    "oncebox_tries": {
        "delivery_id": f"'dlv_' || {_ID}",
        "fence": "i % 3",
        "tenant": _TENANT,
        "ended_at": _AT,
        "outcome": "CASE WHEN i % 2 = 0 THEN 'lost' ELSE 'failed' END",
    },
    "oncebox_effects": {
        "delivery_id": f"'dlv_' || {_ID}",
        "name": "'charge'",
        "tenant": _TENANT,
        "state": "CASE WHEN i % 10 = 0 THEN 'started' ELSE 'done' END",
        "safe": "'once'",
        "fence": "1",
        "first_started_at": _AT,
        "started_at": _AT,
        "surely_over_at": _AT,
    },
    "oncebox_sightings": {
        "delivery_id": f"'dlv_' || {_ID}",
        "class": "'retry'",
        "tenant": _TENANT,
        "count": "1",
        "first_at": _AT,
        "last_at": _AT,
        "road": "'http'",
    },
    "oncebox_examples": {
        "delivery_id": f"'dlv_' || {_ID}",
        "class": "'retry'",
        "number": "1",
        "tenant": _TENANT,
        "at": _AT,
        "road": "'http'",
        "verdict": "''",
        "headers": "{blob}'[]'{/blob}",
    },
    "oncebox_audit": {
        "id": f"'aud_' || {_ID}",
        "tenant": _TENANT,
        "at": _AT,
        "who": "'somebody'",
        "action": "'replay'",
        "target": f"'dlv_' || {_ID}",
        "why": "'because'",
        "detail": "''",
    },
    "oncebox_quarantine": {
        "id": f"'req_' || {_ID}",
        "tenant": _TENANT,
        "source": "'source' || (i % 50)",
        "reason": "'signature'",
        "class": "'forged'",
        "received_at": _AT,
        "method": "'POST'",
        "url": "'/in/shop'",
        "headers": "{blob}'[]'{/blob}",
        "sealed": "{blob}''{/blob}",
        "body": "{blob}''{/blob}",
        "size": "10",
    },
    "oncebox_rejects": {
        "tenant": f"'tenant' || (i / {TINY})",
        "source": "'shop'",
        "class": "'class' || i",
        "count": "1",
        "first_at": _AT,
        "last_at": _AT,
    },
    "oncebox_claims": {
        "tenant": "'acme'",
        "request_key": "'request ' || i",
        "worker": "'worker'",
        "sources": "{blob}'[]'{/blob}",
        "asked_at": _AT,
        "answer": "{blob}'[]'{/blob}",
    },
    "oncebox_gates": {
        "tenant": "'acme'",
        "source": "CASE WHEN i = 0 THEN 'shop' ELSE 'source' || i END",
        "allowance": "1000000",
        "refilled_at": _AT,
    },
    "oncebox_tenants": {"name": "'tenant' || i", "created_at": _AT},
    "oncebox_keys": {
        "id": f"'key_' || {_ID}",
        "tenant": f"'tenant' || (i / {TINY})",
        "name": "'a key'",
        "hint": "'obx'",
        "digest": "{blob}'0123456789012345678901' || " + _ID + " || '__'{/blob}",
        "scopes": "'admin'",
        "created_at": _AT,
    },
    "oncebox_sources": {
        "tenant": f"'tenant' || (i / {TINY})",
        "name": "'source' || i",
        "public_id": "'public' || i",
        "settings": "'{}'",
        "created_at": _AT,
        "changed_at": _AT,
    },
    "oncebox_source_secrets": {
        "id": f"'sec_' || {_ID}",
        "tenant": f"'tenant' || (i / {TINY})",
        "source": "'source' || i",
        "sealed": "{blob}'sealed'{/blob}",
        "created_at": _AT,
        "retired_at": f"CASE WHEN i < {TINY} THEN {_AT} END",
    },
    "oncebox_idempotency": {
        "tenant": "'acme'",
        "route": "'POST /v1/inboxes'",
        "key": "'key ' || i",
        "body_hash": "{blob}'hash'{/blob}",
        "holder": "'holder'",
        "started_at": _AT,
    },
    "oncebox_domains": {
        "name": "'domain' || i || '.example'",
        "tenant": f"'tenant' || (i / {TINY})",
        "catch_all": f"'inb_' || {_ID}",
        "created_at": _AT,
    },
    "oncebox_inboxes": {
        "id": f"'inb_' || {_ID}",
        "tenant": _TENANT,
        "email": "'box' || i || '@domain1.example'",
        "address": "'box' || i || '@domain1.example'",
        "attempt_id": "'attempt ' || (i / 4)",
        "label": "'label ' || (i % 4)",
        "owner": f"CASE WHEN i < {TINY} * 2 THEN 'key_few' ELSE 'key_many' END",
        "state": _INBOX_STATE,
        "created_at": _AT,
        "active_until": _AT,
        "due_at": f"CASE WHEN i % 10 = 9 OR {_OPEN} THEN {_AT} + 100000000000 END",
        "ended_at": f"CASE WHEN i % 10 < 9 AND NOT {_OPEN} THEN {_AT} END",
        "metadata": "{blob}'{}'{/blob}",
        "policy": "{blob}'{}'{/blob}",
        "cursor": "10",
    },
    "oncebox_retired_inboxes": {
        "mark": "{blob}'address ' || i{/blob}",
        "tenant": f"CASE WHEN {_OPEN} THEN 'acme' END",
        "inbox_id": f"CASE WHEN {_OPEN} THEN 'inb_gone' || i END",
    },
    "oncebox_quotas": {
        "tenant": "'tenant' || i",
        "stored_bytes": "i",
    },
    "oncebox_messages": {
        "id": f"'msg_' || {_ID}",
        "tenant": _TENANT,
        "inbox_id": _INBOX,
        "sequence": "i",
        "identity": "{blob}'identity ' || i{/blob}",
        "message_mark": "{blob}'mark ' || (i % 5000){/blob}",
        "delivery_id": f"'dlv_' || {_ID}",
        "payload_id": f"'dlv_' || {_ID}",
        "status": "'parsed'",
        "received_at": _AT,
        "size": "10",
        "recipient": "'box@domain1.example'",
        "sender": "'a@b.example'",
        "sender_domain": "'b.example'",
        "sender_org": "CASE WHEN i % 5000 < 12 THEN 'rare.example' ELSE 'b.example' END",
        "sender_verdict": "CASE WHEN i % 5000 = 2 THEN 'none' ELSE 'pass' END",
        "matched": "1",
        "warnings": "{blob}'[]'{/blob}",
        "document": "{blob}'{}'{/blob}",
    },
    "oncebox_copies": {
        "delivery_id": f"'dlv_' || {_ID}",
        "tenant": _TENANT,
        "message_id": f"'msg_' || CASE WHEN i % 4 = 0 THEN {FIRST} + 100 ELSE {_ID} END",
        "at": _AT,
        "road": "'smtp'",
        "differs": "{blob}'[]'{/blob}",
    },
    "oncebox_events": {
        "id": f"'evt_' || {_ID}",
        "tenant": _TENANT,
        "number": f"CASE WHEN {_OPEN} THEN NULL ELSE i END",
        "type": "CASE WHEN i % 1000 = 17 THEN 'inbox.missed' ELSE 'message.received' END",
        "inbox_id": _INBOX,
        "attempt_id": "'attempt ' || (i / 4)",
        "subject_id": f"'msg_' || {_ID}",
        "at": _AT,
        "data": "{blob}'{}'{/blob}",
    },
    "oncebox_streams": {
        "tenant": "CASE i WHEN 0 THEN 'acme' WHEN 1 THEN 'tiny' ELSE 'tenant' || i END",
        "last": "CASE WHEN i = 0 THEN {rows} ELSE 9 END",
    },
    "oncebox_duties": {
        "name": "CASE WHEN i = 0 THEN 'sequencer' ELSE 'duty' || i END",
        "holder": "'holder'",
        "fence": "1",
        "until": "0",
    },
    "oncebox_artifacts": {
        "id": f"'art_' || {_ID}",
        "tenant": _TENANT,
        "inbox_id": _INBOX,
        "attempt_id": "'attempt ' || (i / 4)",
        "message_id": f"'msg_' || {_ID}",
        "sequence": "i",
        "kind": "CASE WHEN i % 3 = 0 THEN 'code' ELSE 'link' END",
        "mark": "{blob}'value ' || i{/blob}",
        "sealed": "{blob}'sealed'{/blob}",
        "state": "CASE WHEN i % 10 = 0 THEN 'superseded' ELSE 'available' END",
        "rank": "1",
        "confidence": "900",
        "matched": "i % 2",
        "purpose": "'sign_in'",
        "sender": "'a@b.example'",
        "sender_domain": "'b.example'",
        "sender_org": "CASE WHEN i % 5000 < 12 THEN 'rare.example' ELSE 'b.example' END",
        "sender_verdict": "'pass'",
        "proven": "CASE WHEN i % 4 = 0 THEN 1 ELSE 0 END",
        "received_at": _AT,
        "warnings": "{blob}'[]'{/blob}",
        "releases": "CASE WHEN i % 1000 = 0 THEN 1 ELSE 0 END",
        "attempt_mark": "CASE WHEN i % 5 > 0 THEN {blob}'attempt value ' || i{/blob} END",
        "same_as": f"CASE WHEN i % 20 = 1 THEN 'art_' || ({_ID} - 1) END",
    },
    "oncebox_inbox_counts": {
        "inbox_id": f"'inb_' || {_ID}",
        "tenant": _TENANT,
        "polls": "1",
        "timeouts": "0",
        "artifact_duplicates": "0",
        "cursor_replays": "0",
        "lease_conflicts": "0",
    },
    "oncebox_attempts": {
        "tenant": "'acme'",
        "attempt_id": "'attempt ' || i",
        "owner": "'key_many'",
        "created_at": _AT,
    },
    "oncebox_actions": {
        "tenant": _TENANT,
        "attempt_id": "'attempt ' || (i / 2)",
        "name": "'action ' || (i % 2)",
        "state": f"CASE WHEN {_OPEN} THEN 'started' ELSE 'done' END",
        "safe": "'once'",
        "holder": "'key_many'",
        "request_mark": "{blob}'mark ' || i{/blob}",
        "fence": "1",
        "lease_until": f"{_AT} + 10000000000",
        "first_started_at": _AT,
        "started_at": _AT,
    },
    "oncebox_resends": {
        "tenant": "'acme'",
        "attempt_id": "'attempt ' || (i / 2)",
        "number": "i % 2",
        "request_mark": "{blob}'mark ' || i{/blob}",
        "granted_to": "'key_many'",
        "at": _AT,
    },
    "oncebox_transports": {
        "tenant": f"CASE WHEN i < 3 THEN 'acme' ELSE 'tenant' || (i / {TINY}) END",
        "name": "'way' || i",
        "kind": "CASE WHEN i % 100 = 0 THEN 'resend' ELSE 'smtp' END",
        "position": "i",
        "rests_until": "CASE WHEN i % 50 = 7 THEN 9000000000000 END",
        "failover_group": "'main'",
        "created_at": _AT,
        "changed_at": _AT,
    },
    "oncebox_mailboxes": {
        "id": f"'mbx_' || {_ID}",
        "tenant": _TENANT,
        "name": f"'box' || {_ID}",
        "kind": "'imap'",
        "account": "'ann'",
        "config": "{blob}'config ' || i{/blob}",
        "address": "''",
        "authserv": "''",
        "poll_every": "60000",
        "poll_after": "30000",
        "push_source": "CASE WHEN i % 1000 = 5 THEN 'push' || (i / 1000) END",
        "due_at": f"CASE WHEN i % 10 = 0 THEN {_AT} ELSE 9000000000000 END",
        "created_at": _AT,
        "changed_at": _AT,
    },
    "oncebox_endpoints": {
        "tenant": _TENANT,
        "name": f"'place' || {_ID}",
        "url": "'https://a.example/'",
        "types": "''",
        "ordering": "'none'",
        "concurrency": "8",
        "secrets": "{blob}'secrets'{/blob}",
        "since": "0",
        "created_at": _AT,
        "changed_at": _AT,
    },
    "oncebox_endpoint_cursors": {
        "tenant": "CASE WHEN i = 1 THEN 'acme' ELSE 'tenant' || i END",
        "cursor": "0",
    },
    "oncebox_mailbox_mails": {
        "mailbox_id": f"'mbx_' || ({FIRST} + i / 100)",
        "digest": "{blob}'digest ' || i{/blob}",
        "read_at": _AT,
    },
    "oncebox_signing_domains": {
        "tenant": f"CASE WHEN i < 3 THEN 'acme' ELSE 'tenant' || (i / {TINY}) END",
        "transport": "'way' || i",
        "domain": "'x.example'",
    },
    "oncebox_sends": {
        "tenant": _TENANT,
        "id": f"'snd_' || {_ID}",
        "key": "{blob}'key ' || i{/blob}",
        "protected": "{blob}'protected'{/blob}",
        "content": "{blob}'content'{/blob}",
        "state": _SEND_STATE,
        "transport": "'way' || (i % 2)",
        "message_id": "'<' || i || '@x.example>'",
        "event_type": "'welcome'",
        "entity_id": "'entity' || i",
        "owner": f"CASE WHEN i < {TINY} * 2 THEN 'key_few' ELSE 'key_many' END",
        "on_unknown": "'hold'",
        "created_at": _AT,
        "due_at": f"CASE WHEN {_OPEN} THEN {_AT} + (i % 4) * 10000000 END",
        "valid_until": "NULL",
        "fence": "1",
        "in_doubt_at": f"CASE WHEN i % 10 = 1 AND NOT {_OPEN} THEN {_AT} END",
        "provider_id": "'provider' || i",
        "retention": "'short'",
        "kept_for": "1000",
        "keep_until": f"CASE WHEN {_OPEN} OR i % 10 = 1 OR i % 3 = 0 THEN NULL ELSE {_AT} END",
        "purged_at": f"CASE WHEN i % 3 = 0 AND i % 10 <> 1 AND NOT {_OPEN} THEN {_AT} END",
        "ended_at": f"CASE WHEN {_OPEN} OR i % 10 = 1 THEN NULL ELSE {_AT} END",
        "body_id": f"'snd_' || {_ID}",
        "size": "10",
        "pinned": "0",
    },
    "oncebox_send_bodies": {
        "send_id": f"'snd_' || {_ID}",
        "id": f"'snd_' || {_ID}",
        "tenant": _TENANT,
        "message": "{blob}'message'{/blob}",
        "envelope": "{blob}'envelope'{/blob}",
    },
    "oncebox_send_recipients": {
        "send_id": f"'snd_' || {_ID}",
        "mark": "{blob}'recipient ' || (i + 1000000){/blob}",
        "tenant": _TENANT,
    },
    "oncebox_suppressions": {
        "tenant": _TENANT,
        "mark": "{blob}'mark ' || (i + 1000000){/blob}",
        "address": "{blob}'sealed'{/blob}",
        "reason": "'manual'",
        "created_at": _AT,
    },
    "oncebox_send_tries": {
        "send_id": f"'snd_' || {_ID}",
        "fence": "1",
        "tenant": _TENANT,
        "transport": "'way0'",
        "ended_at": _AT,
        "outcome": "'accepted'",
        "reply": "0",
        "provider_id": "''",
    },
    "oncebox_batches": {
        "id": f"'bat_' || {_ID}",
        "tenant": "'acme'",
        "key": "{blob}'key ' || i{/blob}",
        "members": "{blob}'members'{/blob}",
        "size": "1",
        "created_at": _AT,
    },
    "oncebox_batch_sends": {
        "batch_id": f"'bat_' || {_ID}",
        "place": "0",
        "tenant": "'acme'",
        "send_id": f"'snd_' || {_ID}",
    },
    "oncebox_send_guards": {
        "tenant": "'acme'",
        "kind": "CASE WHEN i % 2 = 0 THEN 'cool_down' ELSE 'recipient' END",
        "name": "{blob}'name ' || i{/blob}",
        "until": _AT,
        "used": "1",
        "holder": f"'snd_' || {_ID}",
    },
    "oncebox_handled": {"tenant": "'acme'", "source": "'source' || i", "seen_at": _AT},
    "oncebox_data_keys": {
        "master_key_id": "'key' || (i % 2)",
        "generation": "i",
        "wrapped": "{blob}'wrapped'{/blob}",
        "active_from": _AT,
    },
    "oncebox_rotation": {
        "number": "1",
        "old_key_id": "'key0'",
        "new_key_id": "'key1'",
        "generation": "9",
        "active_from": _AT,
        "place": "'payloads'",
        "after": "'[]'",
    },
}  # fmt: skip

#: tables that stay small in any installation: how many rows they get at most
SMALL = {
    "oncebox_transports": 400,
    "oncebox_signing_domains": 400,
    "oncebox_mailboxes": 4_000,
    "oncebox_endpoints": 400,
    "oncebox_endpoint_cursors": 400,
    "oncebox_duties": 10,
    "oncebox_handled": 200,
    "oncebox_data_keys": 20,
    "oncebox_rotation": 1,
    "oncebox_gates": 200,
    "oncebox_tenants": 400,
    "oncebox_streams": 400,
    "oncebox_sources": 4_000,
    "oncebox_source_secrets": 4_000,
    "oncebox_domains": 4_000,
    "oncebox_keys": 4_000,
    "oncebox_rejects": 4_000,
    "oncebox_quarantine": 4_000,
}
_CASTS = {"sqlite": ("CAST(", " AS BLOB)"), "postgres": ("CAST(", " AS BYTEA)")}
_COUNTING = {
    "sqlite": "WITH RECURSIVE n(i) AS"
    " (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {rows})",
    "postgres": "WITH n AS (SELECT i FROM generate_series(0, {rows} - 1) AS i)",
}


def statements(kind: str, rows: int) -> list[str]:
    """Return one statement per table that fills it."""
    return [statement(kind, table, min(rows, SMALL.get(table, rows))) for table in TABLES]


def statement(kind: str, table: str, rows: int) -> str:
    """Return the statement that fills a table."""
    before, after = _CASTS[kind]
    columns = TABLES[table]
    text = (
        f"{_COUNTING[kind]} INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608 - our own words
        f" SELECT {', '.join(columns.values())} FROM n"
    )
    for mark, value in (("{rows}", str(rows)), ("{blob}", before), ("{/blob}", after)):
        text = text.replace(mark, value)
    if kind == "postgres":
        text = text.replace("generate_series(0", "generate_series(0::bigint")
    return text
