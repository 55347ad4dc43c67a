"""Values for the parameters of every query, such that it finds rows of the large tables.

A value is looked up under the query, its page and its folder, the most special first. A function
makes another value for each row of a bulk query. Cases that matter beside the usual one are below.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import oncebox
from oncebox.db.queries import Query, load
from tests.contract.plans.tables import FIRST, OPEN, START, STEP

_PACKAGE = Path(oncebox.__file__).parent

Values = Mapping[str, Any]


class Numbers:
    """Row numbers and times that depend on how many rows there are."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def id(self, prefix: str, number: int) -> str:
        """Return the id of a row."""
        return f"{prefix}_{FIRST + number}"

    @property
    def now(self) -> int:
        """A time after all rows were made."""
        return START + self.rows * STEP


def queries() -> dict[str, Query]:
    """Return every query of every page, as folder/page.query."""
    found = {}
    for page in sorted(_PACKAGE.rglob("*.sql")):
        if "migrations" not in page.parts:
            package = ".".join(("oncebox", *page.parent.relative_to(_PACKAGE).parts))
            for name, query in load(package, page.name).all.items():
                found[f"{page.parent.name}/{page.stem}.{name}"] = query
    return found


def _spread(prefix: str, number: Numbers, step: int = 97) -> Callable[[int], str]:
    """Return ids all over a table, one for each row of a bulk query."""
    return lambda row: number.id(prefix, 101 + row * step % (number.rows - 500))


def _in_work(number: Numbers) -> Callable[[int], str]:
    return lambda row: number.id("dlv", number.rows - OPEN + 10 * row)


def fresh(prefix: str) -> Callable[[int], str]:
    """Return ids that no row has."""
    return lambda row: f"{prefix}_9999{row:04}"


def _digest(number: Numbers, prefix: str, first: int) -> Callable[[int], bytes]:
    """Return digests of rows, one after the other."""
    return lambda row: number.id(prefix, first + row).encode()


def marked(text: str) -> Callable[[int], bytes]:
    """Return a text with a number for each row, as bytes."""
    return lambda row: f"{text} {101 + row}".encode()


def defaults(number: Numbers) -> Values:
    """Return a value for each name of a parameter, or for query:name, page:name, folder:name."""
    now, rows = number.now, number.rows
    delivery, send = _spread("dlv", number), _spread("snd", number)
    inbox, message = _spread("inb", number), _spread("msg", number)
    in_work = _in_work(number)
    return {
        # whose, and what
        "tenant": "acme",
        "source": "shop",
        "owner": "key_many",
        "key": "key",
        "key_id": "key_many",
        "worker": "worker1",
        "holder": "holder",
        "name": "charge",
        "type": "order.created",
        "kind": "code",
        "state": "done",
        "class": "retry",
        "road": "http",
        "verdict": "",
        "outcome": "done",
        "error": None,
        "traceback": None,
        "safe": "once",
        "transport": "way0",
        "reason": "manual",
        "label": "label 1",
        "domain": "domain1.example",
        "purpose": "sign_in",
        "status": "parsed",
        "email": lambda row: f"new{row}@domain1.example",
        "recipient": "box@domain1.example",
        "sender": "a@b.example",
        "sender_domain": "b.example",
        "sender_org": "",
        "sender_verdict": "pass",
        "who": "somebody",
        "action": "replay",
        "why": "because",
        "detail": "",
        "hint": "obx",
        "scopes": "admin",
        "settings": "{}",
        "reference": None,
        "url": "/in/shop",
        "method": "POST",
        "attempt_id": lambda row: f"attempt {200 + row}",
        "lane": "lane499",
        "code": "refused",
        "phase": "answered",
        "event_type": "welcome",
        "entity_id": "entity",
        "effect": "mail",
        "on_unknown": "hold",
        "retention": "short",
        "delivery": "delivered",
        "move_to": "way1",
        "failover_group": "main",
        "route": "POST /v1/inboxes",
        "request_key": "request 100",
        "variant": "",
        "hold_reason": None,
        "waits_for": None,
        "superseded_by": None,
        "past": None,
        "rotated_from": None,
        "replay_of": None,
        "after_type": None,
        "secret_id": None,
        "inbox_id": inbox,
        "message_id": message,
        "delivery_id": delivery,
        "send_id": send,
        "payload_id": delivery,
        "subject_id": message,
        "id": delivery,
        "target": delivery(0),
        "public_id": "public100",
        "provider_id": lambda row: f"provider{101 + row}",
        "address": lambda row: f"box{101 + row}@domain1.example",
        "checksum": "x",
        "value": "x",
        "low": "dlv_10000",
        "high": "dlv_10001",
        "lowest": number.id("inb", 25) + ":",
        "highest": number.id("inb", 25) + ";",
        "types": None,
        "catch_all": number.id("inb", 5),
        "successor": number.id("inb", 6),
        "batch_id": number.id("bat", 100),
        "seen": 1,
        # bytes
        "digest": f"0123456789012345678901{FIRST + 100}__".encode(),
        "body_hash": b"hash",
        "answer": b"[]",
        "sealed": b"x",
        "nothing": b"",
        "mark": marked("value"),
        "fingerprint": marked("fingerprint"),
        "headers": b"[]",
        "body": b"x",
        "warnings": b"[]",
        "document": b"{}",
        "data": b"{}",
        "metadata": b"{}",
        "policy": b"{}",
        "claim_mark": b"x",
        "lease_mark": b"x",
        "attempt_mark": marked("attempt value"),
        "result": b"x",
        "identity": marked("identity"),
        "differs": b"[]",
        "sources": b"[]",
        "protected": b"protected",
        "content": b"content",
        "message": b"x",
        "envelope": b"x",
        "members": b"x",
        "config": b"x",
        # numbers and times
        "now": now,
        "at": now,
        "until": now + 30_000,
        "most": 20,
        "before": START + 50 * STEP,
        "floor": 0,
        "tries": 20,
        "fence": 1,
        "count": 1,
        "size": 10,
        "slice_start": 0,
        "give_up_at": now + 100_000,
        "due_at": now,
        "received_at": now,
        "started_at": None,
        "ended_at": now,
        "held_at": None,
        "sequence": lambda row: rows + row,
        "position": 5,
        "ruled": 0,
        "taken": 1,
        "rate": 10,
        "bytes": 10**12,
        "expires_at": None,
        "created_at": now,
        "forgotten": 0,
        "lost": now,
        "paused": 0,
        "allowed": 3,
        "number": 5,
        "signed_at": None,
        "confidence": 900,
        "rank": 1,
        "tied": 0,
        "matching": 1,
        "proven": 1,
        "since": 0,
        "surely_over_at": now,
        "may_make": 1,
        "last": 5,
        "skip_stale": 0,
        "gap_until": None,
        "after_until": None,
        "not_before": None,
        "uncounted": 0,
        "jump": 1,
        "upto": 50,
        "length": 1,
        "draining": 1_000,
        "new": 1,
        "copies": 1,
        "polls": 1,
        "timeouts": 0,
        "artifact_duplicates": 0,
        "cursor_replays": 0,
        "lease_conflicts": 0,
        "first_at": now,
        "last_at": now,
        "duplicates": 0,
        "longest": 1_000,
        "active_until": now,
        "place": 0,
        "strength": 5,
        "replay_until": now,
        "pinned": 0,
        "reply": 250,
        "free": 0,
        "span": 3_600_000,
        "send_at": None,
        "valid_until": None,
        "kept_for": 1_000,
        "first": 1_000,
        "threshold": 5,
        "at_once": 0,
        "rate_within": 1_000,
        "allowance": 1,
        "after": START,
        # per page
        "admin/api_keys:id": number.id("key", 100),
        "admin/api_keys:tenant": "tenant10",
        "admin/api_keys.add:id": "key_9",
        "admin/api_keys.add:digest": b"x" * 32,
        "admin/audit.record:id": "aud_9",
        "admin/idempotency:key": "key 100",
        "admin/idempotency.begin:key": "new",
        "admin/idempotency:seen": "holder",
        "admin/sources:tenant": "tenant10",
        "admin/sources:name": "source100",
        "admin/sources.add:public_id": "new",
        "admin/sources.add_secret:id": "sec_9",
        "admin/sources:id": number.id("sec", 100),
        "admin/tenants.add:name": "new",
        "artifacts/artifacts:id": _spread("art", number),
        "artifacts/claims:id": _spread("art", number),
        "artifacts/artifacts.insert:id": fresh("art"),
        "artifacts/artifacts.insert:mark": marked("new"),
        "artifacts/claims:first_id": _spread("art", number),
        "artifacts/artifacts.inbox:id": inbox(0),
        "artifacts/claims.owners:id": inbox,
        "artifacts/artifacts:before": "art_~",
        "artifacts/artifacts:state": None,
        "artifacts/artifacts.stand:state": "available",
        "artifacts/artifacts.newest:inbox_id": number.id("inb", 77),
        "artifacts/artifacts.page:inbox_id": number.id("inb", 77),
        "artifacts/artifacts.page:kind": None,
        "attempts/actions:name": "action 1",
        "attempts/actions:key": "key_many",
        "attempts/actions.begin:name": "new",
        "attempts/actions:state": "done",
        "attempts/actions.newest:state": None,
        "attempts/actions.newest_open:state": "unknown",
        "attempts/actions:mark": marked("mark"),
        "attempts/attempts:mark": b"mark 200",
        "attempts/attempts:lowest": "attempt 20",
        "attempts/attempts:highest": "attempt 21",
        "attempts/attempts.grant:mark": b"new",
        "attempts/attempts.adopt:attempt_id": lambda row: f"new {row}",
        "deliveries/deduplication:class": "new",
        "deliveries/deduplication:key_digest": _digest(number, "new_key", 0),
        "deliveries/deduplication:body_digest": _digest(number, "new_bod", 0),
        "deliveries/deduplication.insert_whole:key_digest": _digest(number, "whl_key", 0),
        "deliveries/deduplication.insert_whole:body_digest": _digest(number, "whl_bod", 0),
        "deliveries/deduplication.insert_arrival:key_digest": _digest(number, "arr_key", 0),
        "deliveries/deduplication.insert_arrival:body_digest": _digest(number, "arr_bod", 0),
        "deliveries/deduplication.insert_arrival:id": lambda row: f"dlv_9998{row:04}",
        "deliveries/deduplication.known:key_digest": _digest(number, "key_dig", 100),
        "deliveries/deduplication.owners:body_digest": _digest(number, "bod_dig", 101),
        "deliveries/deduplication.insert:id": fresh("dlv"),
        "deliveries/deduplication.insert:key": lambda row: f"new {row}",
        "deliveries/deduplication.insert:fingerprint": marked("new"),
        "deliveries/deduplication.insert:state": "received",
        "deliveries/deduplication.insert:lane": None,
        "deliveries/deduplication.insert_payload:id": fresh("dlv"),
        "deliveries/deduplication.insert_whole:id": fresh("dlv"),
        "deliveries/deduplication.insert_whole:key": lambda row: f"whole {row}",
        "deliveries/deduplication.insert_whole:fingerprint": marked("whole"),
        "deliveries/deduplication.known:key": lambda row: f"inb_{FIRST + 25}:{100 + row}",
        "deliveries/effects:delivery_id": in_work,
        "deliveries/effects.begin:name": "new",
        "deliveries/effects:seen": 1,
        "deliveries/backlog:most": 1_000,
        "deliveries/inspections:state": None,
        "deliveries/inspections:source": None,
        "deliveries/inspections:before": "dlv_~",
        "deliveries/inspections.in_state:state": "dead",
        "deliveries/inspections.of_source:source": "shop",
        "deliveries/inspections:after": number.id("dlv", rows - 50),
        "deliveries/inspections.in_work:source": "shop",
        "deliveries/inspections.overdue:source": "shop",
        "deliveries/inspections.overdue:before": START + 100 * STEP,
        "deliveries/inspections.ids_by_key:source": "shop",
        "deliveries/inspections.ids_by_key:key_digest": number.id("key_dig", 100).encode(),
        "deliveries/inspections.ids_by_key:key": f"inb_{FIRST + 25}:100",
        "deliveries/inspections.touched:after": number.id("aud", rows - 50),
        "deliveries/lanes.is_done:type": b"type 1",
        "deliveries/lanes.remember_type:type": b"new",
        "deliveries/lanes.number:lane": lambda row: f"new{row}",
        "deliveries/lanes.of_type:lane": "long",
        "deliveries/lanes.lock:lane": lambda row: f"lane{1 + row}",
        "deliveries/lanes.advance:lane": lambda row: f"lane{1 + row}",
        "heavy": 0,
        "inboxes/quotas.add:tenant": lambda row: f"tenant{row}",
        "inboxes/quotas.remove:tenant": lambda row: f"tenant{row}",
        "deliveries/leases.due:most": 20,
        "deliveries/leases.claim:most": 20,
        "deliveries/leases.claim:bytes": 1_000_000,
        "deliveries/leases.renew:id": in_work,
        "deliveries/leases.lease_expired:id": in_work,
        "deliveries/leases.bury:id": in_work,
        "deliveries/leases.record_lost:id": in_work,
        "deliveries/leases.holders:id": in_work,
        "deliveries/leases.since:at": now,
        "deliveries/leases.open:most": 10_000,
        "deliveries/leases.any:source": lambda row: "shop" if row == 0 else f"none{row}",
        "deliveries/leases.announce:source": lambda row: f"new{row}",
        "deliveries/pull.reserve:request_key": "new",
        "deliveries/quarantine:id": number.id("req", 100),
        "deliveries/quarantine.insert:id": fresh("req"),
        "deliveries/quarantine:source": "source7",
        "deliveries/quarantine:before": "req_~",
        "deliveries/quarantine.newest:source": None,
        "deliveries/quarantine:most": 50_000,
        "deliveries/quarantine.newest:most": 20,
        "deliveries/quarantine.count:class": lambda row: f"new{row}",
        "deliveries/quarantine.counts:tenant": "tenant10",
        "deliveries/settlements:id": in_work,
        "deliveries/settlements:state": "done",
        "db/migrate:name": "cipher",
        "db/migrate:number": 9_999,
        "events/event_log.record:id": fresh("evt"),
        "events/event_log:after": rows - 300,
        "ledger/maintenance.kept:upto": "~",
        "events/event_log.read:upto": rows - 201,
        "events/event_log.read:inbox_id": None,
        "events/event_log.read:attempt_id": None,
        "events/event_log.read:owner": None,
        "events/event_log.moved:seen": 5,
        "events/event_log.moved:tenant": lambda row: f"tenant{10 + row}",
        "events/event_log:name": "sequencer",
        "events/event_log:floor": "",
        "events/event_log.number:id": lambda row: number.id("evt", rows - 100 + row),
        "events/event_log.number:number": lambda row: rows * 2 + row,
        "events/event_log.advance:tenant": lambda row: f"tenant{10 + row}",
        "inboxes/allocation:name": "domain100.example",
        "inboxes/allocation:tenant": "tenant10",
        "inboxes/allocation.add:name": "new.example",
        "inboxes/inboxes:id": inbox,
        "inboxes/inboxes.add:id": fresh("inb"),
        "inboxes/inboxes.add:address": lambda row: f"new{row}@domain1.example",
        "inboxes/inboxes.add:label": "new",
        "inboxes/inboxes:state": None,
        "inboxes/inboxes:before": "inb_~",
        "inboxes/inboxes.due:now": now,
        "inboxes/inboxes.set_policy:stored": b"{}",
        "inboxes/inboxes.keep_original:rotated_from": number.id("inb", 77),
        "inboxes/longpoll.read:id": inbox,
        "inboxes/messages:id": message,
        "inboxes/messages.insert:id": fresh("msg"),
        "inboxes/messages.insert:identity": marked("new"),
        "inboxes/messages.lock:id": inbox,
        "inboxes/messages.advance:id": inbox,
        "inboxes/messages.rules:id": inbox,
        "inboxes/messages.inbox:id": inbox(0),
        "inboxes/messages:mark": marked("mark"),
        "inboxes/messages:after": 100,
        "inboxes/messages:before": "msg_~",
        "inboxes/messages.newest:inbox_id": number.id("inb", 77),
        "inboxes/messages.page:inbox_id": number.id("inb", 77),
        "inboxes/messages.copy:message_id": message,
        "inboxes/messages.copies:message_id": number.id("msg", 100),
        "inboxes/recipient_directory:name": "domain100.example",
        "ledger/lookup.request:low": "req_10000",
        "ledger/lookup.request:high": "req_10001",
        "ledger/lookup.inbox:low": "inb_10000",
        "ledger/lookup.inbox:high": "inb_10001",
        "ledger/lookup.message:low": "msg_10000",
        "ledger/lookup.message:high": "msg_10001",
        "ledger/lookup.artifact:low": "art_10000",
        "ledger/lookup.artifact:high": "art_10001",
        "ledger/lookup.send:low": "snd_10000",
        "ledger/lookup.send:high": "snd_10001",
        "ledger/lookup.key:low": "key_10000",
        "ledger/lookup.key:high": "key_10001",
        "ledger/lookup.key:tenant": "tenant10",
        "ledger/lookup.secret:tenant": "tenant10",
        "ledger/lookup.secret:low": "sec_10000",
        "ledger/lookup.secret:high": "sec_10001",
        "master_key_id": "key1",
        "old_key_id": "key0",
        "new_key_id": "key1",
        "generation": 9,
        "wrapped": b"x",
        "active_from": now,
        "ledger/master_key_rotation.add_key:generation": lambda row: 1_000 + row,
        "ledger/master_key_rotation:prefix": b"\0sealed:",
        "ledger/master_key_rotation:place": "payloads",
        "ledger/master_key_rotation:after": "[]",
        "ledger/master_key_rotation:before": b"x",
        "ledger/master_key_rotation:id": number.id("dlv", 100),
        "ledger/master_key_rotation:send_id": number.id("snd", 100),
        "ledger/master_key_rotation:attempt_id": "attempt 100",
        "ledger/master_key_rotation:mark": b"mark 1000100",
        "after_id": "",
        "after_tenant": "",
        "after_route": "",
        "after_key": "",
        "after_attempt_id": "",
        "after_name": "",
        "after_send_id": "",
        "after_mark": b"",
        "ledger/maintenance:after": "",
        "ledger/maintenance:request_id": delivery,
        "ledger/maintenance.purge:before": now,
        "ledger/maintenance.next:after": number.id("msg", 100),
        "ledger/maintenance.empty_messages:id": message,
        "ledger/maintenance.overwrite:id": _spread("art", number),
        "ledger/maintenance.overwrite:mark": marked("gone"),
        "ledger/maintenance.firsts:id": _spread("art", number),
        "ledger/maintenance.forget_marks:id": _spread("art", number),
        "inboxes/inboxes:lowest": "attempt 200",
        "inboxes/inboxes:highest": "attempt 200\x01",
        "inboxes/inbox_counts.of_attempt:lowest": "attempt 200",
        "inboxes/inbox_counts.of_attempt:highest": "attempt 200\x01",
        "inboxes/inbox_counts.smtp_copies_of_attempt:lowest": "attempt 200",
        "inboxes/inbox_counts.smtp_copies_of_attempt:highest": "attempt 200\x01",
        "inboxes/retention.ended:after_at": now - 1000,
        "inboxes/retention.ended:before": now,
        "inboxes/retention.retire:id": _spread("inb", number),
        "inboxes/retention.retire:before": now,
        "inboxes/retention.refuse:id": fresh("inb"),
        "inboxes/retention:mark": marked("address"),
        "inboxes/retention.finish:mark": b"address 100",
        "inboxes/retention:inbox_id": number.id("inb", 100),
        "inboxes/retention.remember:inbox_id": fresh("inb"),
        "inboxes/retention:lowest": number.id("inb", 100) + ":",
        "inboxes/retention:highest": number.id("inb", 100) + ";",
        "inboxes/retention.delete_artifacts:id": _spread("art", number),
        "inboxes/retention.delete_messages:id": message,
        "inboxes/retention:id": delivery,
        "ledger/maintenance.empty_sends:id": send,
        "ledger/maintenance.forget:id": send,
        "ledger/maintenance.forget_recipients:id": send,
        "ledger/maintenance.forget_send_tries:id": send,
        "ledger/maintenance.forget_places:id": send,
        "sends:id": send,
        "sends:key": marked("key"),
        "sends/submission.intents_add:held": None,
        "sends/submission.store_whole:held": None,
        "sends/submission.store_whole:id": fresh("snd"),
        "sends/submission.store_whole:key": marked("whole"),
        "sends/submission.store_whole:marks": b"",
        "events/event_log.record:number": None,
        "sends:before": "snd_~",
        "sends:state": None,
        "sends/sends:transport": None,
        "sends/sends.newest_in_state:owner": None,
        "sends/sends.newest_in_state:state": "failed",
        "inboxes/inboxes.newest_in_state:state": "closed",
        "sends/sends.named:name": "provider500",
        "sends/submission:name": marked("name"),
        "sends/submission.ways:name": lambda row: f"way{row % 3}",
        "sends/submission.hold:kind": "key",
        "sends/submission.spend:kind": "recipient",
        "sends/submission.intents_add:id": fresh("snd"),
        "sends/submission.intents_add:key": marked("new"),
        "sends/submission.rearm:id": fresh("snd"),
        "sends/submission.add_body:send_id": fresh("snd"),
        "sends/submission.drop_old_body:id": "x",
        "sends/submission.add_recipient:send_id": fresh("snd"),
        "sends/submission.add_log:tenant": lambda row: f"new{row}",
        "sends/submission.wary:tenant": lambda row: f"tenant{row}",
        "sends/submission.join:place": lambda row: row + 1,
        "sends/submission.forget:now": START + 50 * STEP,
        "sends/submission.batches_add:id": "bat_9",
        "sends/submission.batches_add:key": b"new",
        "sends/suppressions:mark": b"mark 1000100",
        "sends/suppressions.add:mark": b"new",
        "sends/evidence.note:mark": lambda row: f"recipient {1_000_101 + 97 * row}".encode(),
        "sends/evidence.suppress:mark": marked("new"),
        "sends/evidence.suppress:address": b"x",
        "sends/suppressions.add:address": b"x",
        "sends/transports:name": "way1",
        "sends/transports.add:name": "new",
        "sends/transports.of_kind:kind": "resend",
        "sends/transports.change:kind": "smtp",
        "sends/transports.change:seen": None,
        "sends/transports.add:kind": "smtp",
        # endpoints
        "endpoints:name": f"place{FIRST + 101}",
        "endpoints/endpoints.add:name": "new",
        "endpoints:url": "https://a.example/",
        "endpoints:types": "",
        "endpoints:inbox_id": None,
        "endpoints:attempt_id": None,
        "endpoints:source": None,
        "endpoints/endpoints.drop_waiting:source": "shop",
        "endpoints:ordering": "none",
        "endpoints:concurrency": 8,
        "endpoints:secrets": b"secrets",
        "endpoints:before": b"secrets",
        "endpoints/endpoints.advance:before": 0,
        "endpoints:upto": 1,
        "endpoints:since": 0,
        "endpoints:cursor": 0,
        "endpoints:paused": "operator",
        "endpoints:after": "",
        "endpoints:prefix": "@endpoint:",
        "endpoints:count": 1,
        "endpoints:until": now + 1,
        # mailboxes
        "mailboxes:id": _spread("mbx", number, 7),
        "mailboxes:mailbox_id": lambda row: f"mbx_{FIRST + 101 + row}",
        "mailboxes:name": f"box{FIRST + 101}",
        "mailboxes:kind": "imap",
        "mailboxes:account": "ann",
        "mailboxes:config": b"config",
        "mailboxes:address": "",
        "mailboxes:authserv": "",
        "mailboxes:origin": "database",
        "mailboxes:inbox_id": None,
        "mailboxes:push_source": None,
        "mailboxes:source": "push1",
        "mailboxes:poll_every": 60_000,
        "mailboxes:poll_after": 30_000,
        "mailboxes:fence": 0,
        "mailboxes:version": 0,
        "mailboxes:cursor": "cursor",
        "mailboxes:remaining": None,
        "mailboxes:skipped": 0,
        "mailboxes:unrouted": 0,
        "mailboxes:resyncs": 0,
        "mailboxes:messages": 1,
        "mailboxes:duplicates": 0,
        "mailboxes:replays": 0,
        "mailboxes:repeated": 0,
        "mailboxes:polls": 1,
        "mailboxes:timeouts": 0,
        "mailboxes:code": "timed_out",
        "mailboxes:paused": None,
        "mailboxes:moved": 1,
        "mailboxes:refused": 1,
        "mailboxes:digest": lambda row: f"digest {10_100 + 100 * row}".encode(),
        "mailboxes:read_at": now,
        "mailboxes:after": "",
        "mailboxes/mailboxes.due_declared:name": lambda row: f"box{FIRST + 101 + 10 * row}",
        "mailboxes/mailboxes.inbox:inbox_id": f"inb_{FIRST + 101}",
        "mailboxes/mailboxes.add:id": "mbx_new",
        "mailboxes/mailboxes.add:name": "new",
        "mailboxes/polls.create:id": "mbx_new",
        "mailboxes/polls.create:name": "new",
        "mailboxes/polls.arrange:id": _spread("dlv", number, 7),
        "mailboxes/polls.arrange:due_at": now,
        "mailboxes/mailboxes.change:seen": START + 101 * STEP,
        "mailboxes/mailboxes.record:digest": lambda row: f"new {row}".encode(),
    }


Case = tuple[str, str, Values]


def cases(number: Numbers) -> Iterator[Case]:
    """Yield queries again with other values: the cases in which few rows or none are found."""
    yield from _delivery_cases(number)
    yield from _inbox_cases(number)
    yield from _other_cases(number)


def _delivery_cases(number: Numbers) -> Iterator[Case]:
    tiny, half = {"tenant": "tiny"}, {"before": number.id("dlv", number.rows // 2)}
    for name in ("newest_of_tenant", "since_of_tenant", "sources"):
        yield f"deliveries/inspections.{name}", "of a small tenant", tiny
    for state in ("dead", "held", "failed"):
        yield "deliveries/inspections.in_state", state, {"state": state}
    yield "deliveries/inspections.newest", "next page", half
    yield "deliveries/inspections.newest_of_tenant", "next page", half
    yield "deliveries/inspections.newest", "in progress", {"state": "processing"}
    yield "deliveries/inspections.of_source", "rare", {"source": "rare"}
    yield "deliveries/leases.claim", "many", {"most": 2_000}
    for name in ("due", "claim", "expired", "lost_once"):
        mail = {"source": "@mail", "heavy": 1}
        yield f"deliveries/leases.{name}", "heavy mail", mail
    for name in ("due", "claim"):
        floor = {"floor": number.now - 100 * STEP}
        yield f"deliveries/leases.{name}", "with a floor", floor
        for source in ("rare", "none"):
            yield f"deliveries/leases.{name}", f"source {source}", {"source": source}
    for name in ("active", "first", "lowest", "standing"):
        yield f"deliveries/lanes.{name}", "in a long lane", {"lane": "long"}


def _inbox_cases(number: Numbers) -> Iterator[Case]:
    tiny, big = {"tenant": "tiny"}, number.id("inb", 77)
    yield "inboxes/messages.page", "the last", {"inbox_id": big, "after": number.rows - 50}
    yield (
        "inboxes/messages.page",
        "of a small inbox",
        {"inbox_id": number.id("inb", 25), "after": 0},
    )
    yield "inboxes/messages.newest", "unproven", {"proven": 0}
    for name in ("artifacts/artifacts.newest", "inboxes/messages.newest"):
        for sender in ("b.example", "rare.example", "none.example"):
            yield name, f"of {sender}", {"sender_org": sender}
    yield "inboxes/messages.recent_of_tenant", "of a small tenant", tiny
    half = {"before": number.id("msg", number.rows // 2)}
    for name in ("recent", "recent_of_tenant"):
        yield f"inboxes/messages.{name}", "next page", half
    yield "inboxes/inboxes.first_due", "some", {"now": number.now + 100_000_000_000}
    yield "inboxes/inboxes.due", "some", {"now": number.now + 100_000_000_000}
    for state in ("draining", "expired"):
        yield "inboxes/inboxes.newest_in_state", state, {"state": state}
    yield "inboxes/inboxes.newest", "of a small tenant", tiny
    yield "inboxes/inboxes.newest_of_owner", "of few", {"owner": "key_few"}
    yield "inboxes/inboxes.newest_of_attempt", "of nobody", {"owner": "nobody"}
    yield "artifacts/artifacts.page", "codes", {"inbox_id": big, "kind": "code"}
    yield "artifacts/artifacts.newest", "unproven", {"proven": 0}


def _other_cases(number: Numbers) -> Iterator[Case]:
    tiny = {"tenant": "tiny"}
    for state in ("unknown", "failed", "suppressed"):
        yield "sends/sends.newest_in_state", f"{state}", {"state": state}
    yield "sends/sends.newest_of_owner", "of few", {"owner": "key_few"}
    yield "sends/sends.newest", "next page", {"before": number.id("snd", number.rows // 2)}
    window = {"after": 0, "upto": 2_000}
    yield "events/event_log.read", "of one type", {**window, "types": ",inbox.missed,"}
    yield "events/event_log.read", "of one inbox", {**window, "inbox_id": number.id("inb", 25)}
    yield "events/event_log.read", "of one attempt", {**window, "attempt_id": "attempt 25"}
    yield "events/event_log.read", "of one owner", {**window, "owner": "key_few"}
    yield "events/event_log.oldest", "of a small tenant", tiny
    for name in ("send", "inbox"):
        yield f"ledger/lookup.{name}", "of a small tenant", tiny
    for name in ("kept", "journalled"):
        yield (
            f"ledger/maintenance.{name}",
            "further on",
            {"after": number.id("dlv", number.rows // 2)},
        )


def value_of(values: Values, query: str, name: str) -> Any:
    """Return the value of a parameter; a name that is nowhere is an error."""
    page, folder = query.rpartition(".")[0], query.partition("/")[0]
    for scope in (f"{query}:", f"{page}:", f"{folder}:", ""):
        if f"{scope}{name}" in values:
            return values[f"{scope}{name}"]
    raise LookupError(
        f"{query} has a parameter {name}, and tests/contract/plans has no value for it"
    )


def bound(
    values: Values, name: str, query: Query, changed: Values, bulk: int
) -> tuple[list[Any], Values]:
    """Return the rows of a bulk query and the values that are the same for all of them."""

    def one(column: str, row: int) -> Any:
        found = changed[column] if column in changed else value_of(values, name, column)
        return found(row) if callable(found) else found

    rows = [
        tuple(one(column, row) for column, _ in query.bulk)
        for row in range(bulk if query.bulk else 0)
    ]
    return rows, {each: one(each, 0) for each in query.shared}
