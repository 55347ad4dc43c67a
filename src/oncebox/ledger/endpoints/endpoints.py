"""Endpoints: configuration, removal, circuit breakers, and the deliveries that events make.

See docs/decisions/0056-use-deliveries-for-events-to-endpoints.md.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from oncebox.core import ids
from oncebox.core.logging import iso_time
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import CursorTooOld, LeaseLost, NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.deliveries.deduplication import accept
from oncebox.ledger.events import event_log
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.endpoints import (
    SOURCE_PREFIX,
    Endpoint,
    EndpointFields,
    EndpointOrder,
    EndpointPause,
    rest_after,
)
from oncebox.model.events import Event, EventFilter, EventType, NewEvent

_sql = load(__package__, "endpoints.sql")

#: how the deliveries of events arrived
_CHANNEL = "event"
_NO_HEADERS = b"[]"
#: events that are turned into deliveries in one commit
MOST_EVENTS = 500
#: waiting deliveries that are dropped in one commit
_MOST_DROPPED = 2_000
#: an endpoint: its tenant and name
EndpointRef = tuple[str, str]


# configuration


def add(
    tx: Transaction, fields: EndpointFields, secrets: bytes, entry: audit.AuditEntry
) -> Endpoint:
    """Store a new endpoint; it gets the events that are recorded from now on.

    Raises: StateConflict.
    """
    since = event_log.bounds(tx, entry.tenant).last
    tx.run(_sql.begin_cursor, tenant=entry.tenant, cursor=since)
    values = msgspec.structs.asdict(fields) | {
        "types": "".join(f"{each}," for each in fields.types),
        "ordering": fields.ordering.value,
    }
    if not tx.run(
        _sql.add, tenant=entry.tenant, secrets=secrets, since=since, now=entry.at, **values
    ):
        raise StateConflict("there is an endpoint of that name; choose another, or remove it first")
    audit.record(tx, entry, "endpoint add", f"endpoint:{fields.name}")
    return get(tx, entry.tenant, fields.name)


def get(tx: Transaction, tenant: str, name: str) -> Endpoint:
    """Return one endpoint.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, tenant=tenant, name=name)
    if row is None:
        raise NotFound("there is no such endpoint; list them with: oncebox endpoint list")
    return _to_endpoint(row)


def of_tenant(
    tx: Transaction, tenant: str, *, after: str = "", most: int = 100_000
) -> list[Endpoint]:
    """Return the endpoints of a tenant, by name."""
    rows = tx.all(_sql.of_tenant, tenant=tenant, after=after, most=most)
    return [_to_endpoint(row) for row in rows]


def pause(tx: Transaction, name: str, entry: audit.AuditEntry) -> Endpoint:
    """Deliver nothing more; events go on to be stored for it.

    Raises: NotFound.
    """
    found = get(tx, entry.tenant, name)
    if not _pause(tx, entry.tenant, name, EndpointPause.OPERATOR, entry.at):
        return found
    audit.record(tx, entry, "endpoint pause", f"endpoint:{name}")
    return get(tx, entry.tenant, name)


def mark_gone(tx: Transaction, tenant: str, name: str, now: int) -> bool:
    """Pause an endpoint that answered 410; return whether it was not paused before."""
    if not _pause(tx, tenant, name, EndpointPause.GONE, now):
        return False
    gone = NewEvent(
        id=ids.new("evt"),
        tenant=tenant,
        type=EventType.ENDPOINT_PAUSED,
        subject_id=name,
        at=now,
        data={"reason": EndpointPause.GONE.value},
    )
    event_log.record(tx, [gone])
    return True


def _pause(tx: Transaction, tenant: str, name: str, why: EndpointPause, now: int) -> bool:
    return bool(tx.run(_sql.pause, tenant=tenant, name=name, paused=why.value, now=now))


def resume(tx: Transaction, name: str, entry: audit.AuditEntry) -> Endpoint:
    """Deliver again, at once.

    Raises: NotFound.
    """
    if not tx.run(_sql.resume, tenant=entry.tenant, name=name, now=entry.at):
        get(tx, entry.tenant, name)
    audit.record(tx, entry, "endpoint resume", f"endpoint:{name}")
    return get(tx, entry.tenant, name)


def replace_secrets(
    tx: Transaction, seen: Endpoint, secrets: bytes, entry: audit.AuditEntry
) -> Endpoint:
    """Replace the secrets that sign.

    Raises: NotFound; StateConflict, if they were changed meanwhile.
    """
    name = {"tenant": entry.tenant, "name": seen.name}
    if not tx.run(_sql.replace_secrets, secrets=secrets, before=seen.secrets, now=entry.at, **name):
        get(tx, entry.tenant, seen.name)
        raise StateConflict("the secrets of this endpoint have just been changed; try again")
    audit.record(tx, entry, "endpoint rotate", f"endpoint:{seen.name}")
    return get(tx, entry.tenant, seen.name)


def remove(tx: Transaction, name: str, entry: audit.AuditEntry) -> None:
    """Forget an endpoint; ``drop_waiting`` ends what waits for it.

    Raises: NotFound.
    """
    if not tx.run(_sql.remove, tenant=entry.tenant, name=name):
        get(tx, entry.tenant, name)
    audit.record(tx, entry, "endpoint remove", f"endpoint:{name}")


def drop_waiting(tx: Transaction, tenant: str, name: str, now: int) -> int:
    """End some deliveries that wait for an endpoint that was removed; return how many.

    Raises: StateConflict, if there is one of that name again.
    """
    if tx.one(_sql.one, tenant=tenant, name=name) is not None:
        raise StateConflict("there is an endpoint of that name again; nothing of it is dropped")
    source = SOURCE_PREFIX + name
    return tx.run(_sql.drop_waiting, tenant=tenant, source=source, now=now, most=_MOST_DROPPED)


def _to_endpoint(row: Row) -> Endpoint:
    values = dict(zip(_COLUMNS, row, strict=True))
    values |= {
        "types": tuple(each for each in values["types"].split(",") if each),
        "ordering": EndpointOrder(values["ordering"]),
        "paused": None if values["paused"] is None else EndpointPause(values["paused"]),
        "secrets": bytes(values["secrets"]),
    }
    return Endpoint(**values)


_COLUMNS = Endpoint.__struct_fields__


# circuit breakers


def busy(tx: Transaction, now: int) -> list[Endpoint]:
    """Return the endpoints of all tenants that have due or lost deliveries."""
    return [_to_endpoint(row) for row in tx.all(_sql.busy, prefix=SOURCE_PREFIX, now=now)]


class EndpointOutcome(NamedTuple):
    """How a request to an endpoint ended."""

    tenant: str
    name: str
    accepted: bool


class OpenedBreaker(NamedTuple):
    """A circuit breaker that opened."""

    tenant: str
    name: str
    failures: int
    rests_until: int


def record_outcomes(
    tx: Transaction, outcomes: Sequence[EndpointOutcome], random: Callable[[], float], now: int
) -> list[OpenedBreaker]:
    """Count failures and successes of endpoints; open and close their breakers.

    Return the breakers that opened; each is an event.
    """
    accepted = sorted({each[:2] for each in outcomes if each.accepted})
    failed = Counter(each[:2] for each in outcomes if not each.accepted)
    if accepted:
        tx.run_many(_sql.succeed, accepted, now=now)
    if not failed:
        return []
    counted = tx.many(_sql.fail, sorted((*ref, n) for ref, n in failed.items()), now=now)
    opened = [
        OpenedBreaker(tenant, name, failures, now + rest)
        for tenant, name, failures, rests_until in sorted(counted)
        if (rests_until is None or rests_until <= now) and (rest := rest_after(failures, random))
    ]
    tx.run_many(_sql.rest, [(each.tenant, each.name, each.rests_until) for each in opened], now=now)
    event_log.record(tx, [_breaker_event(each, now) for each in opened])
    return opened


def _breaker_event(opened: OpenedBreaker, now: int) -> NewEvent:
    return NewEvent(
        id=ids.new("evt"),
        tenant=opened.tenant,
        type=EventType.ENDPOINT_FAILING,
        subject_id=opened.name,
        at=now,
        data={"failures": opened.failures, "rests_until": opened.rests_until},
    )


# events


class FannedOut(NamedTuple):
    """What was stored of a tenant's events."""

    events: int
    deliveries: int
    #: events that were deleted before they were read
    missed: int = 0
    has_more: bool = False


def tenants_behind(tx: Transaction) -> list[str]:
    """Return the tenants with events that are not stored for their endpoints yet."""
    return [str(row[0]) for row in tx.all(_sql.behind)]


def fan_out(tx: Transaction, tenant: str, now: int) -> FannedOut:
    """Store a delivery of the next events for each endpoint that wants them, and the cursor.

    Raises: LeaseLost, if another process did; nothing was stored.
    """
    row = tx.one(_sql.cursor, tenant=tenant)
    if row is None:
        return FannedOut(0, 0)
    cursor = int(row[0])
    places = of_tenant(tx, tenant)
    missed = 0
    try:
        batch = event_log.read(tx, EventFilter(tenant=tenant), cursor, MOST_EVENTS)
    except CursorTooOld:
        begin = event_log.bounds(tx, tenant).first - 1
        missed = max(0, begin - cursor)
        batch = event_log.read(tx, EventFilter(tenant=tenant), begin, MOST_EVENTS)
    if not tx.run(_sql.advance, tenant=tenant, before=cursor, upto=batch.up_to):
        raise LeaseLost("another process stored the same events for endpoints")
    new = [
        _delivery(place, event, now)
        for event in batch.events
        for place in places
        if place.wants(event)
    ]
    if new:
        accept(tx, new, now)
    return FannedOut(len(batch.events), len(new), missed, batch.has_more)


def _delivery(place: Endpoint, event: Event, now: int) -> NewDelivery:
    return NewDelivery(
        id=ids.new("dlv"),
        tenant=place.tenant,
        source=place.delivery_source,
        key=event.id,
        body=event_body(event),
        headers=_NO_HEADERS,
        fingerprint=hashlib.sha256(event.id.encode()).digest(),
        type=event.type,
        road=_CHANNEL,
        lane=place.lane(event),
        received_at=now,
        redelivery="count",
    )


def event_body(event: Event) -> bytes:
    """Return an event as it is sent: the payload of Standard Webhooks, typed fields only."""
    data = {
        "id": event.id,
        "number": event.number,
        "inbox_id": event.inbox_id,
        "attempt_id": event.attempt_id,
        "subject_id": event.subject_id,
        "metadata": event.metadata,
        "data": event.data,
    }
    return msgspec.json.encode({"type": event.type, "timestamp": iso_time(event.at), "data": data})
